//! The stubs of a document with mistakes: items that other code uses, so that a mistake causes no
//! further errors.

use std::collections::HashSet;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};

use super::expand::{KeyStruct, PathConstants, Shape, SoftDeleteImpl};
use super::model::{DocumentModel, Indexing};
use crate::private::{import, private};

/// Generates items that compile and never run.
pub(super) fn stubs(model: DocumentModel) -> TokenStream {
    let (import, private) = (import(&model.krate), private());
    let key_struct = KeyStruct(&model).into_token_stream();
    let key_impls = key_stubs(&model, &private);
    let model = &permissive(model);
    let constants = PathConstants(model);
    let document = document_stub(model, &private);
    let lease = model.lease().map(|_| lease_stub(&model.ident, &private));
    let soft_delete = SoftDeleteImpl(model);
    quote! {
        #key_struct
        const _: () = {
            #import
            #constants
            #key_impls
            #document
            #lease
            #soft_delete
        };
    }
}

fn document_stub(model: &DocumentModel, private: &TokenStream) -> TokenStream {
    let (name, shape) = (&model.ident, Shape(model));
    let key = format_ident!("{name}Key");
    quote! {
        #[automatically_derived]
        impl #private::Document for #name {
            type Key = #key;
            const SHAPE: &'static #private::DocumentShape = &#shape;
            fn field_codec() -> #private::FieldCodec<Self> {
                ::core::unreachable!()
            }
            fn key(&self) -> Self::Key {
                ::core::unreachable!()
            }
            fn partition_key(&self) -> #private::PartitionKey {
                ::core::unreachable!()
            }
        }

        #[automatically_derived]
        impl #private::Queryable for #name {
            const SHAPES: &'static [&'static #private::DocumentShape] = &[];
            const IS_PARTIAL: #private::bool = true;
        }

        #[automatically_derived]
        impl<__C: #private::Container> #private::QueriedIn<__C> for #name
        where
            #name: #private::MemberOf<__C>,
        {
            fn read_stored(
                _: &#private::str,
            ) -> #private::Result<#private::Stored<Self>, #private::DecodeError> {
                ::core::unreachable!()
            }
        }
    }
}

fn lease_stub(name: &Ident, private: &TokenStream) -> TokenStream {
    quote! {
        #[automatically_derived]
        impl #private::Leasable for #name {
            const LEASE_PATHS: #private::LeasePaths<Self> = #private::LeasePaths::new([""; 4]);
            fn lease(&self) -> &#private::Lease {
                ::core::unreachable!()
            }
            fn set_lease(&mut self, _: #private::Lease) {
                ::core::unreachable!()
            }
        }
    }
}

/// Makes every path filterable and patchable, and removes the partition key, which disables the
/// checks of a container. Of two constants with the same name, which have been reported, one
/// remains.
fn permissive(mut model: DocumentModel) -> DocumentModel {
    let mut seen = HashSet::new();
    for field in &mut model.fields {
        if !seen.insert(field.constant.to_string()) {
            field.skip = Some((String::new(), Span::call_site()));
        }
        field
            .nested
            .retain(|nested| seen.insert(nested.constant.to_string()));
        field.indexing = Indexing::Indexed;
        field.partition_key = None;
    }
    model
        .computed
        .retain(|computed| seen.insert(computed.constant.to_string()));
    model
        .composites
        .retain(|composite| seen.insert(composite.name.to_string()));
    model.pattern.clear();
    model
}

fn key_stubs(model: &DocumentModel, private: &TokenStream) -> TokenStream {
    let (vis, name) = (&model.vis, &model.ident);
    let key = format_ident!("{name}Key");
    let fields = model.key_fields();
    let idents: Vec<_> = fields.iter().map(|field| &field.ident).collect();
    let types = fields.iter().map(|field| &field.ty);
    quote! {
        #[automatically_derived]
        #[allow(dead_code, reason = "not every stub is used")]
        impl #key {
            #[doc(hidden)]
            #vis fn new(#(#idents: impl #private::Into<#types>),*) -> Self {
                Self { #(#idents: #private::Into::into(#idents)),* }
            }
        }

        #[automatically_derived]
        impl #private::DocumentKey for #key {
            type Document = #name;
            fn to_id(&self) -> #private::Result<#private::ItemId, #private::IdError> {
                ::core::unreachable!()
            }
            fn parse(_: &#private::str) -> #private::Result<Self, #private::IdError> {
                ::core::unreachable!()
            }
        }

        #[automatically_derived]
        impl #private::LocatedKey for #key {
            fn partition_key(&self) -> #private::PartitionKey {
                ::core::unreachable!()
            }
        }
    }
}
