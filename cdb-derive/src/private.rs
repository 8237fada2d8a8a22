//! How generated code reaches `cdb_model`: through one hidden module, imported once per block under a name of its own, so
//! that nothing the user has named can get in the way.

use proc_macro2::TokenStream;
use quote::quote;

/// The import that every generated block begins with.
pub(crate) fn import(krate: &syn::Path) -> TokenStream {
    quote!(use #krate::__private as __model;)
}

/// The hidden module inside such a block.
pub(crate) fn private() -> TokenStream {
    quote!(__model)
}
