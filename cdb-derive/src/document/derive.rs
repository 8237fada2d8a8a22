//! The stages of `#[derive(Document)]`: read, build, check, generate.

use darling::error::Accumulator;
use proc_macro2::TokenStream;

use super::attr::RawDocument;
use super::model::DocumentModel;
use super::{attr, check, expand, fallback, model};
use crate::derived::Derived;
use crate::diag::mistake;
use crate::id_pattern::{self, Segment};

impl Derived for DocumentModel {
    fn read(input: &syn::DeriveInput, errors: &mut Accumulator) -> Option<Self> {
        let raw = attr::read(input, errors)?;
        let pattern = pattern(&raw, errors);
        let model = model::build(raw, pattern);
        check::all(&model, errors);
        Some(model)
    }

    fn expand(&self) -> TokenStream {
        expand::document(self)
    }

    fn stubs(self) -> TokenStream {
        expand::document(&fallback::permissive(self))
    }
}

fn pattern(raw: &RawDocument, errors: &mut Accumulator) -> Vec<Segment> {
    let (Some(pattern), Some(span)) = (raw.settings.id.get(), raw.settings.id.span()) else {
        return Vec::new();
    };
    let mut mistakes = Vec::new();
    let segments = id_pattern::parse(&pattern.0, &mut mistakes);
    errors.extend(mistakes.iter().map(|text| mistake(span, text)));
    segments
}
