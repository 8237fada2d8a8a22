//! The generated code, one kind of thing per file.

mod document_impl;
mod key;
mod paths;
mod shape;

use proc_macro2::TokenStream;
use quote::quote;

pub(super) use key::KeyStruct;
pub(super) use paths::PathConstants;
pub(super) use shape::Shape;

use super::model::DocumentModel;

/// Everything that `#[derive(Document)]` generates.
pub(super) fn document(model: &DocumentModel) -> TokenStream {
    let key = KeyStruct(model);
    let key_impls = key::KeyImpls(model);
    let paths = PathConstants(model);
    let document = document_impl::DocumentImpl(model);
    quote! {
        #key
        const _: () = {
            #key_impls
            #paths
            #document
        };
    }
}
