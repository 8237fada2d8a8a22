//! The stages of `#[derive(Container)]`: read, judge, build, write.

use darling::Error;
use proc_macro2::TokenStream;
use quote::quote;

use super::model::ContainerModel;
use super::{attr, check, expand, fallback, model};

/// The derive, on plain tokens.
pub(crate) fn derive(input: TokenStream) -> TokenStream {
    let input: syn::DeriveInput = match syn::parse2(input) {
        Ok(input) => input,
        Err(error) => return error.into_compile_error(),
    };
    match checked(&input) {
        Ok(model) => expand::container(&model),
        Err(Refused { error, model }) => {
            let errors = error.write_errors();
            let stubs = model.map(|model| fallback::stubs(*model));
            quote!(#errors #stubs)
        }
    }
}

/// A type with mistakes.
#[derive(Debug)]
pub(super) struct Refused {
    /// All of them.
    pub(super) error: Error,
    /// As much of the type as could be read; nothing when not even a stub makes sense.
    model: Option<Box<ContainerModel>>,
}

/// The model, or what is wrong with it and as much of it as could be read.
pub(super) fn checked(input: &syn::DeriveInput) -> Result<ContainerModel, Refused> {
    let mut errors = Error::accumulator();
    let raw = attr::read(input, &mut errors);
    if let Some(raw) = &raw {
        check::all(raw, &mut errors);
    }
    let model = raw.map(model::build);
    match (errors.finish(), model) {
        (Ok(()), Some(model)) => Ok(model),
        (Err(error), model) => Err(Refused {
            error,
            model: model
                .filter(|_| input.generics.params.is_empty())
                .map(Box::new),
        }),
        // `read` returns nothing only after it has said why.
        (Ok(()), None) => Err(Refused {
            error: crate::diag::mistake(input.ident.span(), "this is no container"),
            model: None,
        }),
    }
}
