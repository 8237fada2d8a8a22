//! Fragments that several kinds of items share.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;

use crate::document::model::{DocumentModel, FieldModel};
use crate::output::respan::located_at;

/// Returns the body of a function of the document, which never runs in a stub.
pub(in crate::document) fn body(model: &DocumentModel, code: TokenStream) -> TokenStream {
    if model.is_stub {
        quote!(::core::unreachable!())
    } else {
        code
    }
}

/// Returns an impl with the generic parameters of the document.
pub(super) fn implement(
    model: &DocumentModel,
    head: &TokenStream,
    items: &TokenStream,
) -> TokenStream {
    let (parameters, _, clause) = model.generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #parameters #head #clause {
            #items
        }
    }
}

/// Returns the expression of a key, whose fields have these values.
pub(super) fn key_of(model: &DocumentModel, values: &TokenStream) -> TokenStream {
    let marker =
        (!model.declared.params.is_empty()).then(|| quote!(__document: __model::PhantomData));
    let key = model.key_ident();
    quote!(#key { #values #marker })
}

/// Returns the partition key with these fields.
pub(in crate::document) fn partition_key(fields: &[&FieldModel]) -> TokenStream {
    let levels = fields.iter().map(|field| {
        let ident = &field.ident;
        let level = quote!(__model::PartitionKeyPart::to_partition_key_value(&self.#ident));
        // The span is that of the type, which may not be allowed in a partition key.
        located_at(field.ty.span(), level)
    });
    quote!(__model::PartitionKey::from_values(
        __model::vec![#(#levels),*]
    ))
}
