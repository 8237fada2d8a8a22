//! `#[derive(Document)]` in four stages: read, build, judge, write.

mod attr;
mod check;
mod expand;
mod fallback;
mod model;

use darling::Error;
use proc_macro2::TokenStream;
use quote::quote;

/// The derive, on plain tokens.
pub(crate) fn derive(input: TokenStream) -> TokenStream {
    let input: syn::DeriveInput = match syn::parse2(input) {
        Ok(input) => input,
        Err(error) => return error.into_compile_error(),
    };
    match checked(&input) {
        Ok(model) => expand::document(&model),
        Err(error) => {
            let errors = error.write_errors();
            let stubs = fallback::stubs(&input);
            quote!(#errors #stubs)
        }
    }
}

fn checked(input: &syn::DeriveInput) -> Result<model::DocumentModel, Error> {
    let mut errors = Error::accumulator();
    let model = attr::read(input, &mut errors).and_then(|raw| model::build(raw, &mut errors));
    if let Some(model) = &model {
        check::all(model, &mut errors);
    }
    errors.finish()?;
    model
        .ok_or_else(|| crate::diag::mistake(input.ident.span(), "this struct cannot be a document"))
}

#[cfg(test)]
mod tests;
