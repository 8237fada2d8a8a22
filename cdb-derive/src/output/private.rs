//! The path of generated code to `cdb_model`: one hidden module, imported once per block under a
//! reserved name, so that no name of the user can conflict with it.

use proc_macro2::TokenStream;
use quote::quote;

/// Returns the import at the start of every generated block, which names the module `__model`.
pub(crate) fn import(krate: &syn::Path) -> TokenStream {
    quote!(use #krate::__private as __model;)
}
