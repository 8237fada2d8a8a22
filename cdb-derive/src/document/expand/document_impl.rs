//! The traits of the document itself.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::spanned::Spanned;

use super::private;
use super::shape::Shape;
use crate::document::model::DocumentModel;
use crate::respan::located_at;

/// `Document`, and what makes it queryable.
pub(super) struct DocumentImpl<'a>(pub(super) &'a DocumentModel);

impl ToTokens for DocumentImpl<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let model = self.0;
        let private = private();
        let name = &model.ident;
        let key = format_ident!("{name}Key");
        let shape = Shape(model);
        let key_fields = model.key_fields();
        let key_idents: Vec<_> = key_fields.iter().map(|field| &field.ident).collect();
        let levels = model.partition_key().into_iter().map(|field| {
            let ident = &field.ident;
            let level = quote!(#private::PartitionKeyPart::to_partition_key_value(&self.#ident));
            // A type that cannot be a partition key is reported where it stands.
            located_at(field.ty.span(), level)
        });
        let ttls = model
            .fields
            .iter()
            .filter(|field| field.ttl.is_some())
            .map(|field| {
                let ty = &field.ty;
                located_at(
                    ty.span(),
                    quote!(const _: () = #private::is_time_to_live::<#ty>();),
                )
            });
        tokens.extend(quote! {
            #(#ttls)*

            #[automatically_derived]
            impl #private::Document for #name {
                type Key = #key;

                const SHAPE: &'static #private::DocumentShape = &#shape;

                fn key(&self) -> Self::Key {
                    #key { #(#key_idents: #private::Clone::clone(&self.#key_idents)),* }
                }

                fn partition_key(&self) -> #private::PartitionKey {
                    #private::PartitionKey::from_values(#private::vec![#(#levels),*])
                }
            }

            #[automatically_derived]
            impl #private::Queryable for #name {
                const SHAPES: &'static [&'static #private::DocumentShape] =
                    &[<#name as #private::Document>::SHAPE];
                const SINGLE_TYPE: #private::bool = true;
            }

            #[automatically_derived]
            impl<__C: #private::Container> #private::QueriedIn<__C> for #name
            where
                #name: #private::MemberOf<__C>,
            {
                fn read_stored(
                    json: &#private::str,
                ) -> #private::Result<#private::Stored<Self>, #private::DecodeError> {
                    #private::read_document::<__C, Self>(json)
                }
            }
        });
    }
}
