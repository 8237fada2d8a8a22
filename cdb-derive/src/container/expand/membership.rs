//! The traits of the container's document types, and the conversions into its enum.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

use super::private;
use crate::container::model::ContainerModel;

/// `MemberOf`, `Extends`, `Queryable`, `From`.
pub(in crate::container) struct Membership<'a>(pub(in crate::container) &'a ContainerModel);

impl ToTokens for Membership<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let model = self.0;
        let private = private();
        let name = &model.ident;
        let idents = model.variants().map(|variant| &variant.ident);
        let types = model.variants().map(|variant| &variant.ty);
        let documents = model.documents.iter().map(|variant| &variant.ty);
        let base = model.base.iter().map(|variant| &variant.ty);
        tokens.extend(quote! {
            #(
                #[automatically_derived]
                impl #private::From<#types> for #name {
                    fn from(document: #types) -> Self {
                        Self::#idents(document)
                    }
                }
            )*
            #(
                #[automatically_derived]
                impl #private::MemberOf<#name> for #documents {}
            )*
            #(
                #[automatically_derived]
                impl #private::Extends<#base> for #name {}
            )*
        });
        tokens.extend(queryable(model));
    }
}

fn queryable(model: &ContainerModel) -> TokenStream {
    let (private, name) = (private(), &model.ident);
    quote! {
        #[automatically_derived]
        impl #private::Extends<#name> for #name {}

        #[automatically_derived]
        impl #private::Queryable for #name {
            const SHAPES: &'static [&'static #private::DocumentShape] =
                <#name as #private::Container>::DOCUMENTS;
            const IS_PARTIAL: #private::bool = false;
        }

        #[automatically_derived]
        impl #private::QueriedIn<#name> for #name {
            fn read_stored(
                json: &#private::str,
            ) -> #private::Result<#private::Stored<Self>, #private::DecodeError> {
                #private::read_any::<#name>(json)
            }
        }
    }
}
