//! The generated code, one file per kind of item.

mod document_impl;
mod item;
mod key;
mod paths;
mod roles;
mod search;
mod shape;
mod stub_docs;

use proc_macro2::TokenStream;
use quote::quote;

pub(super) use item::{body, partition_key};

use super::model::DocumentModel;
use crate::output::private::import;

/// Generates the code of `#[derive(Document)]`.
pub(super) fn document(model: &DocumentModel) -> TokenStream {
    let key = key::key_struct(model);
    let key_impls = key::key_impls(model);
    let paths = paths::constants(model);
    let document = document_impl::document_impl(model);
    let roles = roles::role_impls(model);
    let import = import(&model.settings.krate.path());
    quote! {
        #key
        #[allow(non_snake_case, reason = "the names are those of the document")]
        const _: () = {
            #import
            #key_impls
            #paths
            #document
            #roles
        };
    }
}
