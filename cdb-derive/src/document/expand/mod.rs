//! The generated code, one file per kind of item.

mod document_impl;
mod key;
mod lease;
mod paths;
mod search;
mod shape;
mod soft_delete;
mod stub_docs;

use proc_macro2::TokenStream;
use quote::quote;

pub(super) use document_impl::queryable;
pub(super) use key::{KeyStruct, methods};
pub(super) use paths::PathConstants;
pub(super) use shape::Shape;
pub(super) use soft_delete::SoftDeleteImpl;

use super::model::DocumentModel;
use crate::private::import;

/// Generates the code of `#[derive(Document)]`.
pub(super) fn document(model: &DocumentModel) -> TokenStream {
    let key = KeyStruct(model);
    let key_impls = key::KeyImpls(model);
    let paths = PathConstants(model);
    let document = document_impl::DocumentImpl(model);
    let lease = lease::LeaseImpl(model);
    let soft_delete = SoftDeleteImpl(model);
    let import = import(&model.krate);
    quote! {
        #key
        #[allow(non_snake_case, reason = "the names are those of the document")]
        const _: () = {
            #import
            #key_impls
            #paths
            #document
            #lease
            #soft_delete
        };
    }
}
