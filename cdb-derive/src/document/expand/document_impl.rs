//! The traits of the document.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::spanned::Spanned;

use super::shape::Shape;
use crate::document::model::DocumentModel;
use crate::respan::located_at;

/// The impls of `Document`, `Queryable` and `QueriedIn`, and checks of the types of marked fields.
pub(super) struct DocumentImpl<'a>(pub(super) &'a DocumentModel);

impl ToTokens for DocumentImpl<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let model = self.0;
        let name = &model.ident;
        let key = format_ident!("{name}Key");
        let shape = Shape(model);
        let key_fields = model.key_fields();
        let key_idents: Vec<_> = key_fields.iter().map(|field| &field.ident).collect();
        let levels = model.partition_key().into_iter().map(|field| {
            let ident = &field.ident;
            let level = quote!(__model::PartitionKeyPart::to_partition_key_value(&self.#ident));
            // The span is that of the type, which may not be allowed in a partition key.
            located_at(field.ty.span(), level)
        });
        let codec = field_codec(name);
        tokens.extend(type_checks(model));
        tokens.extend(quote! {
            #[automatically_derived]
            impl __model::Document for #name {
                type Key = #key;

                const SHAPE: &'static __model::DocumentShape = &#shape;

                #codec

                fn key(&self) -> Self::Key {
                    #key { #(#key_idents: __model::Clone::clone(&self.#key_idents)),* }
                }

                fn partition_key(&self) -> __model::PartitionKey {
                    __model::PartitionKey::from_values(__model::vec![#(#levels),*])
                }
            }
        });
        tokens.extend(queryable(name));
    }
}

/// The method that returns the JSON codec. Its call has the span of the name, where the user adds
/// serde's derives if they are missing.
fn field_codec(name: &Ident) -> TokenStream {
    let find = quote!((&__model::FindCodec::<Self>::start()).field_codec());
    let find = located_at(name.span(), find);
    quote! {
        fn field_codec() -> __model::FieldCodec<Self> {
            use __model::{MissingCodec as _, SerdeCodec as _};
            #find
        }
    }
}

/// The checks that fields with a mark have a type that fits it.
fn type_checks(model: &DocumentModel) -> TokenStream {
    let checks = model.fields.iter().flat_map(|field| {
        let ty = &field.ty;
        let checks = [
            field.ttl.map(|_| quote!(is_time_to_live)),
            field.unknown.map(|_| quote!(keeps_unknown_fields)),
            field.full_text.as_ref().map(|_| quote!(is_full_text)),
            field.time_role().map(|_| quote!(is_time_of_write)),
        ];
        checks.into_iter().flatten().map(move |check| {
            let check = quote!(const _: () = __model::#check::<#ty>(););
            located_at(ty.span(), check)
        })
    });
    checks.collect()
}

pub(in crate::document) fn queryable(name: &Ident) -> TokenStream {
    quote! {
        #[automatically_derived]
        impl __model::Queryable for #name {
            const SHAPES: &'static [&'static __model::DocumentShape] =
                &[<#name as __model::Document>::SHAPE];
            const IS_PARTIAL: __model::bool = true;
        }

        #[automatically_derived]
        impl<__C: __model::Container> __model::QueriedIn<__C> for #name
        where
            #name: __model::MemberOf<__C>,
        {
            fn read_stored(
                json: &__model::str,
            ) -> __model::Result<__model::Stored<Self>, __model::DecodeError> {
                __model::read_document::<__C, Self>(json)
            }
        }
    }
}
