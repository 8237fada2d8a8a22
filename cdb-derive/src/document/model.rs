//! The input that the later stages read: names resolved, paths computed, places kept.

use darling::error::Accumulator;
use proc_macro2::{Ident, Span};
use quote::format_ident;
use syn::Type;
use syn::ext::IdentExt;

use super::attr::{CompositeSetting, RawDocument, RawField, UniqueSetting};
use crate::diag::mistake;
use crate::id_pattern::{self, Segment};

/// A document type.
#[derive(Debug)]
pub(super) struct DocumentModel {
    pub(super) ident: Ident,
    pub(super) vis: syn::Visibility,
    /// Where `cdb_model` is.
    pub(super) krate: syn::Path,
    pub(super) discriminator: String,
    pub(super) pattern: Vec<Segment>,
    /// Where the pattern stands.
    pub(super) pattern_span: Span,
    pub(super) fields: Vec<FieldModel>,
    pub(super) composites: Vec<CompositeSetting>,
    pub(super) uniques: Vec<UniqueSetting>,
}

/// A field.
#[derive(Debug)]
pub(super) struct FieldModel {
    pub(super) ident: Ident,
    /// Without `r#`.
    pub(super) name: String,
    pub(super) ty: Type,
    /// The stored name.
    pub(super) stored: String,
    pub(super) constant: Ident,
    pub(super) partition_key: Option<(Option<usize>, Span)>,
    pub(super) indexing: Indexing,
    /// Where `index` or `unindexed` stands.
    pub(super) indexing_span: Span,
    pub(super) nested: Vec<NestedModel>,
    pub(super) both_indexed_and_not: bool,
    pub(super) ttl: Option<Span>,
    pub(super) skip: Option<(String, Span)>,
    pub(super) skip_serializing_if: bool,
    /// What the field holds many of, when it is a `Vec`.
    pub(super) element: Option<Type>,
    pub(super) is_option: bool,
}

/// What the policy does with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Indexing {
    Indexed,
    NotIndexed,
    Excluded,
}

/// A declared path inside a field.
#[derive(Debug)]
pub(super) struct NestedModel {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) ty: Type,
    pub(super) constant: Ident,
    /// Elements of arrays have no single value that a filter could name.
    pub(super) through_array: bool,
}

impl DocumentModel {
    /// The fields of the id pattern, in order.
    pub(super) fn key_fields(&self) -> Vec<&FieldModel> {
        let mut fields: Vec<&FieldModel> = Vec::new();
        for segment in &self.pattern {
            if let Segment::Field(name) = segment
                && let Some(field) = self.field(name)
                && !fields.iter().any(|known| known.name == *name)
            {
                fields.push(field);
            }
        }
        fields
    }

    /// The partition key, outermost level first.
    pub(super) fn partition_key(&self) -> Vec<&FieldModel> {
        let mut fields: Vec<_> = self
            .fields
            .iter()
            .filter_map(|field| Some((field.partition_key?.0.unwrap_or(1), field)))
            .collect();
        fields.sort_by_key(|(level, _)| *level);
        fields.into_iter().map(|(_, field)| field).collect()
    }

    pub(super) fn field(&self, name: &str) -> Option<&FieldModel> {
        self.fields.iter().find(|field| field.name == name)
    }

    pub(super) fn field_names(&self) -> Vec<String> {
        self.fields.iter().map(|field| field.name.clone()).collect()
    }

    /// Whether a patch must leave the field alone.
    pub(super) fn is_fixed(&self, field: &FieldModel) -> bool {
        field.partition_key.is_some()
            || self
                .pattern
                .iter()
                .any(|segment| matches!(segment, Segment::Field(name) if *name == field.name))
    }
}

/// Builds the model; what is missing is said, and the rest is still checked.
pub(super) fn build(raw: RawDocument, errors: &mut Accumulator) -> Option<DocumentModel> {
    let name = &raw.ident;
    let krate = raw
        .settings
        .krate
        .clone()
        .unwrap_or_else(|| syn::parse_quote!(::cdb_model));
    let discriminator = raw
        .settings
        .discriminator
        .as_ref()
        .map(|value| value.0.clone());
    if discriminator.is_none() {
        errors.push(mistake(
            name.span(),
            format!("`{name}` has no type; add `#[document(type = \"…\")]`, the text that marks its documents"),
        ));
    }
    let pattern = match &raw.settings.id {
        Some(pattern) => match id_pattern::parse(pattern) {
            Ok(segments) => Some(segments),
            Err(reason) => {
                errors.push(mistake(pattern.span(), reason));
                None
            }
        },
        None => {
            errors.push(mistake(
                name.span(),
                format!(
                    "`{name}` has no id pattern; add `#[document(id = \"…\")]` naming the fields that make it unique within its partition"
                ),
            ));
            None
        }
    };
    let pattern_span = raw.settings.id.as_ref().map_or(name.span(), |id| id.span());
    let rule = raw.serde.rename_all;
    let fields = raw
        .fields
        .into_iter()
        .map(|field| {
            let stored = field
                .serde
                .rename
                .clone()
                .unwrap_or_else(|| rule.apply_to_field(&field.ident.unraw().to_string()));
            field_model(field, stored)
        })
        .collect();
    Some(DocumentModel {
        ident: raw.ident,
        vis: raw.vis,
        krate,
        discriminator: discriminator.unwrap_or_default(),
        // A pattern that cannot be read leaves nothing of it to check.
        pattern: pattern.unwrap_or_default(),
        pattern_span,
        fields,
        composites: raw.settings.composite,
        uniques: raw.settings.unique,
    })
}

fn field_model(raw: RawField, stored: String) -> FieldModel {
    let name = raw.ident.unraw().to_string();
    let constant = format_ident!("{}", name.to_uppercase(), span = raw.ident.span());
    let settings = raw.settings;
    let unindexed = settings.unindexed.is_present();
    let (indexing, nested, indexing_span) = match &settings.index {
        Some(index) if index.nested.is_empty() => (Indexing::Indexed, Vec::new(), index.span()),
        Some(index) => {
            let nested = index
                .nested
                .iter()
                .map(|path| NestedModel {
                    name: format!("{name}.{}", path.parts.join(".")),
                    path: format!("/{stored}/{}", path.parts.join("/")),
                    ty: path.ty.clone(),
                    constant: nested_constant(&name, &path.parts, path.span),
                    through_array: path.parts.iter().any(|part| part == "[]"),
                })
                .collect();
            (Indexing::NotIndexed, nested, index.span())
        }
        None if unindexed => (Indexing::Excluded, Vec::new(), settings.unindexed.span()),
        None => (Indexing::NotIndexed, Vec::new(), raw.ident.span()),
    };
    FieldModel {
        element: argument_of(&raw.ty, "Vec"),
        is_option: argument_of(&raw.ty, "Option").is_some(),
        name,
        stored,
        constant,
        partition_key: settings.partition_key.map(|key| (key.level, key.span())),
        both_indexed_and_not: settings.index.is_some() && unindexed,
        indexing,
        indexing_span,
        nested,
        ttl: settings.ttl.is_present().then(|| settings.ttl.span()),
        skip: raw.serde.skip,
        skip_serializing_if: raw.serde.skip_serializing_if,
        ty: raw.ty,
        ident: raw.ident,
    }
}

fn nested_constant(field: &str, parts: &[String], span: Span) -> Ident {
    let mut name = field.to_uppercase();
    for part in parts.iter().filter(|part| *part != "[]") {
        name.push('_');
        for (at, c) in part.char_indices() {
            if at > 0 && c.is_uppercase() {
                name.push('_');
            }
            name.extend(c.to_uppercase());
        }
    }
    format_ident!("{}", name, span = span)
}

/// `T` of `Wrapper<T>`, however the wrapper is spelled.
fn argument_of(ty: &Type, wrapper: &str) -> Option<Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    if last.ident != wrapper {
        return None;
    }
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return None;
    };
    match arguments.args.first()? {
        syn::GenericArgument::Type(ty) => Some(ty.clone()),
        _ => None,
    }
}
