//! The checks of the types of `created_at` and `updated_at`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::spanned::Spanned;

use super::private;
use crate::document::model::DocumentModel;
use crate::respan::located_at;

/// Compiles when the fields can contain times of writes.
pub(super) struct WriteTimeChecks<'a>(pub(super) &'a DocumentModel);

impl ToTokens for WriteTimeChecks<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let private = private();
        let marked = [self.0.created_at(), self.0.updated_at()];
        for field in marked.into_iter().flatten() {
            let ty = &field.ty;
            let check = located_at(ty.span(), quote!(#private::is_time_of_write::<#ty>();));
            tokens.extend(quote!(const _: () = { #check };));
        }
    }
}
