//! The stubs of a document with mistakes: items that other code uses, so that a mistake causes no
//! further errors.

use std::collections::HashSet;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};

use super::expand::{KeyStruct, PathConstants, Shape, SoftDeleteImpl, methods, queryable};
use super::model::{DocumentModel, Indexing};
use crate::private::import;

/// Generates items that compile and never run.
pub(super) fn stubs(model: DocumentModel) -> TokenStream {
    let import = import(&model.krate);
    let key_struct = KeyStruct(&model).into_token_stream();
    let key_impls = key_stubs(&model);
    let model = &permissive(model);
    let constants = PathConstants(model);
    let document = document_stub(model);
    let lease = model.marked(|field| field.lease);
    let lease = lease.map(|_| lease_stub(&model.ident));
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

fn document_stub(model: &DocumentModel) -> TokenStream {
    let (name, shape) = (&model.ident, Shape(model));
    let queryable = queryable(name);
    let key = format_ident!("{name}Key");
    quote! {
        #[automatically_derived]
        impl __model::Document for #name {
            type Key = #key;
            const SHAPE: &'static __model::DocumentShape = &#shape;
            fn field_codec() -> __model::FieldCodec<Self> {
                ::core::unreachable!()
            }
            fn key(&self) -> Self::Key {
                ::core::unreachable!()
            }
            fn partition_key(&self) -> __model::PartitionKey {
                ::core::unreachable!()
            }
        }

        #queryable
    }
}

fn lease_stub(name: &Ident) -> TokenStream {
    quote! {
        #[automatically_derived]
        impl __model::Leasable for #name {
            const LEASE_PATHS: __model::LeasePaths<Self> = __model::LeasePaths::new([""; 4]);
            fn lease(&self) -> &__model::Lease {
                ::core::unreachable!()
            }
            fn set_lease(&mut self, _: __model::Lease) {
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

fn key_stubs(model: &DocumentModel) -> TokenStream {
    let name = &model.ident;
    let key = format_ident!("{name}Key");
    let methods = methods(model, &quote!(__model::PartitionKey));
    quote! {
        #methods

        #[automatically_derived]
        impl __model::DocumentKey for #key {
            type Document = #name;
            type Partition = __model::PartitionKey;
            fn to_id(&self) -> __model::Result<__model::ItemId, __model::IdError> {
                ::core::unreachable!()
            }
            fn parse(_: &__model::str) -> __model::Result<Self, __model::IdError> {
                ::core::unreachable!()
            }
            fn partition(&self) -> __model::PartitionKey {
                ::core::unreachable!()
            }
        }
    }
}
