//! The traits of the container's document types, and the conversions into its enum.

use proc_macro2::TokenStream;
use quote::quote;

use crate::container::model::ContainerModel;

/// `MemberOf`, `Extends`, `Queryable`, `From`.
pub(super) fn membership(model: &ContainerModel) -> TokenStream {
    let mut tokens = TokenStream::new();
    let name = &model.ident;
    let idents = model.variants.iter().map(|variant| &variant.ident);
    let types = model.variants.iter().map(|variant| &variant.ty);
    let documents = model.documents().map(|variant| &variant.ty);
    let base = model.base().into_iter().map(|variant| &variant.ty);
    tokens.extend(quote! {
        #(
            #[automatically_derived]
            impl __model::From<#types> for #name {
                fn from(document: #types) -> Self {
                    Self::#idents(document)
                }
            }
        )*
        #(
            #[automatically_derived]
            impl __model::MemberOf<#name> for #documents {}
        )*
        #(
            #[automatically_derived]
            impl __model::Extends<#base> for #name {}
        )*
    });
    tokens.extend(queryable(model));
    tokens
}

fn queryable(model: &ContainerModel) -> TokenStream {
    let name = &model.ident;
    quote! {
        #[automatically_derived]
        impl __model::Queryable for #name {
            const SHAPES: &'static [&'static __model::DocumentShape] =
                <#name as __model::Container>::DOCUMENTS;
            const IS_PARTIAL: __model::bool = false;
        }

        #[automatically_derived]
        impl __model::QueriedIn<#name> for #name {
            fn read_stored(
                json: &__model::str,
            ) -> __model::Result<__model::Stored<Self>, __model::DecodeError> {
                __model::read_any::<#name>(json)
            }
        }
    }
}
