//! What goes out with an error: stubs of the impls that other code will ask for, so that the user sees one mistake and
//! not the forty that follow from it.

use darling::FromAttributes;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::attr::StructSettings;

/// Impls that compile and are never run.
pub(super) fn stubs(input: &syn::DeriveInput) -> TokenStream {
    if !input.generics.params.is_empty() {
        return TokenStream::new();
    }
    let krate = StructSettings::from_attributes(&input.attrs)
        .ok()
        .and_then(|settings| settings.krate)
        .unwrap_or_else(|| syn::parse_quote!(::cdb_model));
    let private = quote!(#krate::__private);
    let (vis, name) = (&input.vis, &input.ident);
    let key = format_ident!("{name}Key");
    let text = input.ident.to_string();
    quote! {
        #[automatically_derived]
        const _: () = {
            impl #private::Document for #name {
                type Key = #key;
                const SHAPE: &'static #private::DocumentShape = &#private::DocumentShape {
                    name: #text,
                    discriminator: #text,
                    id: &[],
                    partition_key: &[],
                    fields: &[],
                    composites: &[],
                    unique_keys: &[],
                    ttl: false,
                };
                fn key(&self) -> Self::Key {
                    ::core::unreachable!()
                }
                fn partition_key(&self) -> #private::PartitionKey {
                    ::core::unreachable!()
                }
            }
            impl #private::DocumentKey for #key {
                type Document = #name;
                fn to_id(&self) -> #private::Result<#private::ItemId, #private::IdError> {
                    ::core::unreachable!()
                }
                fn parse(_: &#private::str) -> #private::Result<Self, #private::IdError> {
                    ::core::unreachable!()
                }
            }
        };
        #[doc(hidden)]
        #[derive(::core::clone::Clone, ::core::fmt::Debug)]
        #vis struct #key {}
    }
}
