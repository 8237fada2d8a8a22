//! The stages of `#[derive(Document)]`: read, build, check, generate.

use darling::error::Accumulator;
use proc_macro2::TokenStream;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput};

use super::attr::{FieldSettings, StructSettings};
use super::model::{DocumentModel, FieldModel};
use super::{check, expand, fallback};
use crate::document::id_pattern;
use crate::input::diag::mistake;
use crate::input::serde_attr::{SerdeField, SerdeStruct};
use crate::output::derived::{Derived, named_fields};

impl Derived for DocumentModel {
    fn read(input: &DeriveInput, errors: &mut Accumulator) -> Option<Self> {
        let text = match input.data {
            Data::Enum(_) => {
                "`Document` needs a struct; put the common fields into a struct, and the enum into one of its fields"
            }
            Data::Struct(_) | Data::Union(_) => "`Document` needs a struct with named fields",
        };
        let named = named_fields(input, text, errors)?;
        if let Some(lifetime) = input.generics.lifetimes().next() {
            let name = &input.ident;
            let text = format!("`{name}` borrows, but it is read from JSON; own its content");
            errors.push(mistake(lifetime.span(), text));
        }
        let settings = StructSettings::read(&input.attrs, errors);
        let serde = SerdeStruct::read(&input.attrs, errors);
        let fields = named.iter().filter_map(|field| {
            let settings = FieldSettings::read(&field.attrs, errors);
            let own = SerdeField::read(&field.attrs, errors);
            FieldModel::new(field, settings, own, &serde)
        });
        let fields = fields.collect();
        let mut model = DocumentModel::new(input, settings, &serde, fields);
        if let Some(pattern) = model.settings.id.get() {
            let mut mistakes = Vec::new();
            let segments = id_pattern::parse(&pattern.0, &mut mistakes);
            let span = model.pattern_span();
            errors.extend(mistakes.iter().map(|text| mistake(span, text)));
            model.pattern = segments;
        }
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
