//! `#[derive(Container)]` in the same four stages.

mod attr;
mod expand;
mod model;

use darling::Error;
use proc_macro2::TokenStream;

/// The derive, on plain tokens.
pub(crate) fn derive(input: TokenStream) -> TokenStream {
    let input: syn::DeriveInput = match syn::parse2(input) {
        Ok(input) => input,
        Err(error) => return error.into_compile_error(),
    };
    match checked(&input) {
        Ok(model) => expand::container(&model),
        Err(error) => error.write_errors(),
    }
}

fn checked(input: &syn::DeriveInput) -> Result<model::ContainerModel, Error> {
    let mut errors = Error::accumulator();
    let model = attr::read(input, &mut errors).and_then(|raw| model::build(raw, &mut errors));
    errors.finish()?;
    model.ok_or_else(|| crate::diag::mistake(input.ident.span(), "this enum cannot be a container"))
}

#[cfg(test)]
mod tests;
