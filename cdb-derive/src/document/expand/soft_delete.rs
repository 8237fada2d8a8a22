//! The trait of a document with a soft deletion.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::spanned::Spanned;

use crate::document::model::DocumentModel;
use crate::respan::located_at;

/// The impl of `SoftDelete` for a type with a field for it; empty for other types.
pub(in crate::document) struct SoftDeleteImpl<'a>(pub(in crate::document) &'a DocumentModel);

impl ToTokens for SoftDeleteImpl<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let model = self.0;
        let Some(field) = model.marked(|field| field.soft_delete) else {
            return;
        };
        let (name, ty) = (&model.ident, &field.ty);
        let path = format!("/{}", field.stored);
        let check = located_at(ty.span(), quote!(__model::is_time_of_deletion::<#ty>();));
        tokens.extend(quote! {
            const _: () = { #check };

            #[automatically_derived]
            impl __model::SoftDelete for #name {
                const TIME_OF_DELETION: __model::DeletionPath<Self> = __model::Path::new(#path);
            }
        });
    }
}
