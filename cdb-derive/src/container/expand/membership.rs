//! Which types belong to the container, as traits, and the conversions into its enum.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

use super::private;
use crate::container::model::ContainerModel;

/// `MemberOf`, `Extends`, `Queryable`, `From`.
pub(super) struct Membership<'a>(pub(super) &'a ContainerModel);

impl ToTokens for Membership<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let model = self.0;
        let private = private(model);
        let name = &model.ident;
        for document in &model.documents {
            let (variant, ty) = (&document.ident, &document.ty);
            tokens.extend(quote! {
                #[automatically_derived]
                impl #private::MemberOf<#name> for #ty {}

                #[automatically_derived]
                impl #private::From<#ty> for #name {
                    fn from(document: #ty) -> Self {
                        Self::#variant(document)
                    }
                }
            });
        }
        if let Some(base) = &model.base {
            let (variant, ty) = (&base.ident, &base.ty);
            tokens.extend(quote! {
                #[automatically_derived]
                impl #private::Extends<#ty> for #name {}

                #[automatically_derived]
                impl #private::From<#ty> for #name {
                    fn from(document: #ty) -> Self {
                        Self::#variant(document)
                    }
                }
            });
        }
        tokens.extend(quote! {
            #[automatically_derived]
            impl #private::Extends<#name> for #name {}

            #[automatically_derived]
            impl #private::Queryable for #name {
                const SHAPES: &'static [&'static #private::DocumentShape] =
                    <#name as #private::Container>::DOCUMENTS;
                const SINGLE_TYPE: #private::bool = false;
            }

            #[automatically_derived]
            impl #private::QueriedIn<#name> for #name {
                fn read_stored(
                    json: &#private::str,
                ) -> #private::Result<#private::Stored<Self>, #private::DecodeError> {
                    #private::read_any::<#name>(json)
                }
            }
        });
    }
}
