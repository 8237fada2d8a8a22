//! The stages of `#[derive(Document)]`: read, build, judge, write.

use darling::Error;
use darling::error::Accumulator;
use proc_macro2::TokenStream;
use quote::quote;

use super::attr::RawDocument;
use super::model::DocumentModel;
use super::{attr, check, expand, fallback, model};
use crate::diag::mistake;
use crate::id_pattern::{self, Segment};

/// The derive, on plain tokens.
pub(crate) fn derive(input: TokenStream) -> TokenStream {
    let input: syn::DeriveInput = match syn::parse2(input) {
        Ok(input) => input,
        Err(error) => return error.into_compile_error(),
    };
    match checked(&input) {
        Ok(model) => expand::document(&model),
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
    model: Option<Box<DocumentModel>>,
}

/// The model, or what is wrong with it and as much of it as could be read.
pub(super) fn checked(input: &syn::DeriveInput) -> Result<DocumentModel, Refused> {
    let mut errors = Error::accumulator();
    let model = attr::read(input, &mut errors).map(|raw| {
        check::settings(&raw, &mut errors);
        let pattern = pattern(&raw, &mut errors);
        let model = model::build(raw, pattern);
        check::all(&model, &mut errors);
        model
    });
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
            error: mistake(input.ident.span(), "this is no document"),
            model: None,
        }),
    }
}

fn pattern(raw: &RawDocument, errors: &mut Accumulator) -> Vec<Segment> {
    let (Some(pattern), Some(span)) = (raw.settings.id.get(), raw.settings.id.span()) else {
        return Vec::new();
    };
    let parsed = id_pattern::parse(&pattern.0).map_err(|reason| mistake(span, reason));
    errors.handle(parsed).unwrap_or_default()
}
