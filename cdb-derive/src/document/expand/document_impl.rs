//! The traits of the document.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::spanned::Spanned;

use super::private;
use super::shape::Shape;
use crate::document::model::{DocumentModel, FieldModel};
use crate::respan::located_at;

/// The impls of `Document`, `Queryable` and `QueriedIn`, and checks of the types of marked fields.
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
            // The span is that of the type, which may not be allowed in a partition key.
            located_at(field.ty.span(), level)
        });
        let codec = field_codec(name);
        tokens.extend(type_checks(model));
        tokens.extend(quote! {
            #[automatically_derived]
            impl #private::Document for #name {
                type Key = #key;

                const SHAPE: &'static #private::DocumentShape = &#shape;

                #codec

                fn key(&self) -> Self::Key {
                    #key { #(#key_idents: #private::Clone::clone(&self.#key_idents)),* }
                }

                fn partition_key(&self) -> #private::PartitionKey {
                    #private::PartitionKey::from_values(#private::vec![#(#levels),*])
                }
            }
        });
        tokens.extend(queryable(name));
    }
}

/// The method that returns the JSON codec. Its call has the span of the name, where the user adds
/// serde's derives if they are missing.
fn field_codec(name: &Ident) -> TokenStream {
    let private = private();
    let find = quote!((&#private::FindCodec::<Self>::start()).field_codec());
    let find = located_at(name.span(), find);
    quote! {
        fn field_codec() -> #private::FieldCodec<Self> {
            use #private::{MissingCodec as _, SerdeCodec as _};
            #find
        }
    }
}

fn type_checks(model: &DocumentModel) -> TokenStream {
    let private = private();
    let ttls = model.fields.iter().filter(|field| field.ttl.is_some());
    let ttls = ttls.map(|FieldModel { ty, .. }| {
        let check = quote!(const _: () = #private::is_time_to_live::<#ty>(););
        located_at(ty.span(), check)
    });
    let unknown = model.fields.iter().filter(|field| field.unknown.is_some());
    let unknown = unknown.map(|FieldModel { ty, .. }| {
        let check = quote!(const _: () = #private::keeps_unknown_fields::<#ty>(););
        located_at(ty.span(), check)
    });
    let texts = model
        .fields
        .iter()
        .filter(|field| field.full_text.is_some());
    let texts = texts.map(|FieldModel { ty, .. }| {
        let check = quote!(const _: () = #private::is_full_text::<#ty>(););
        located_at(ty.span(), check)
    });
    ttls.chain(unknown).chain(texts).collect()
}

fn queryable(name: &Ident) -> TokenStream {
    let private = private();
    quote! {
        #[automatically_derived]
        impl #private::Queryable for #name {
            const SHAPES: &'static [&'static #private::DocumentShape] =
                &[<#name as #private::Document>::SHAPE];
            const IS_PARTIAL: #private::bool = true;
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
    }
}
