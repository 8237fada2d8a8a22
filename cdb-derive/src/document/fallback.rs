//! What goes out with an error: stubs of everything that other code will ask for, so that the user sees one mistake and
//! not the forty that follow from it.

use std::collections::HashSet;

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};

use super::expand::{KeyStruct, PathConstants, Shape};
use super::model::DocumentModel;

/// Items that compile and are never run. The empty partition key of the shape tells the checks of a container that
/// there is nothing to compare.
pub(super) fn stubs(model: DocumentModel) -> TokenStream {
    let model = &without_clashes(model);
    let krate = &model.krate;
    let private = quote!(#krate::__private);
    let name = &model.ident;
    let key = format_ident!("{name}Key");
    let (key_struct, constants, shape) = (KeyStruct(model), PathConstants(model), Shape(model));
    let key_impls = key_stubs(model, &private);
    quote! {
        #key_struct
        const _: () = {
            #constants
            #key_impls

            #[automatically_derived]
            impl #private::Document for #name {
                type Key = #key;
                const SHAPE: &'static #private::DocumentShape = &#private::DocumentShape {
                    partition_key: &[],
                    ..#shape
                };
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
                const SINGLE_TYPE: #private::bool = true;
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
        };
    }
}

/// Two constants of one name have been reported; rustc need not say it again.
fn without_clashes(mut model: DocumentModel) -> DocumentModel {
    let mut seen = HashSet::new();
    for field in &mut model.fields {
        if !seen.insert(field.constant.to_string()) {
            field.skip = Some((String::new(), Span::call_site()));
        }
        field.nested.retain(|nested| seen.insert(nested.constant.to_string()));
    }
    model.composites.retain(|composite| seen.insert(composite.name.to_string()));
    model
}

fn key_stubs(model: &DocumentModel, private: &TokenStream) -> TokenStream {
    let name = &model.ident;
    let key = format_ident!("{name}Key");
    let fields = model.key_fields();
    let idents = fields.iter().map(|field| &field.ident);
    let types = fields.iter().map(|field| &field.ty);
    quote! {
        #[automatically_derived]
        impl #key {
            #[doc(hidden)]
            pub fn new(#(#idents: impl #private::Into<#types>),*) -> Self {
                ::core::unreachable!()
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
