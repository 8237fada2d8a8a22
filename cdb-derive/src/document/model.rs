//! The input that the later stages read: names resolved, paths computed, places kept.

use proc_macro2::{Ident, Span};
use quote::format_ident;
use syn::Type;
use syn::ext::IdentExt;

use super::attr::{RawDocument, RawField, StructSettings};
use super::value::{CompositeSetting, NestedPath, UniqueSetting};
use crate::id_pattern::Segment;

/// A document type.
#[derive(Debug)]
pub(crate) struct DocumentModel {
    pub(super) ident: Ident,
    pub(super) vis: syn::Visibility,
    /// Where `cdb_model` is.
    pub(super) krate: syn::Path,
    pub(super) discriminator: String,
    /// The id pattern; empty when it cannot be read.
    pub(super) pattern: Vec<Segment>,
    /// Where the pattern stands.
    pub(super) pattern_span: Span,
    pub(super) fields: Vec<FieldModel>,
    /// Whether the attributes of some field could not be read, so that a mark on it cannot be missed.
    pub(super) has_unreadable_fields: bool,
    pub(super) composites: Vec<CompositeSetting>,
    pub(super) uniques: Vec<UniqueSetting>,
}

/// A field.
#[derive(Debug)]
pub(super) struct FieldModel {
    pub(super) ident: Ident,
    pub(super) vis: syn::Visibility,
    /// Without `r#`.
    pub(super) name: String,
    pub(super) ty: Type,
    /// The stored name.
    pub(super) stored: String,
    pub(super) constant: Ident,
    /// Which level of the partition key it is, and where that stands.
    pub(super) partition_key: Option<(Level, Span)>,
    pub(super) indexing: Indexing,
    /// Where `index` or `unindexed` stands.
    pub(super) indexing_span: Span,
    pub(super) indexing_given: Given,
    pub(super) nested: Vec<NestedModel>,
    pub(super) ttl: Option<Span>,
    pub(super) lease: Option<Span>,
    pub(super) skip: Option<(String, Span)>,
    pub(super) skip_serializing_if: Option<Span>,
    /// Whether the field holds many values, so that its path ends in `/[]`.
    pub(super) is_array: bool,
    pub(super) is_option: bool,
    /// Whether documents without the field are read.
    pub(super) may_be_absent: bool,
}

/// Which level of the partition key a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// `partition_key`
    Only,
    /// `partition_key(1)`
    Numbered(usize),
    /// Reported already.
    Unreadable,
}

/// What the policy does with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Indexing {
    Indexed,
    NotIndexed,
    Excluded,
}

/// Which of `index` and `unindexed` were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    Nothing,
    One,
    Both,
}

/// A declared path inside a field.
#[derive(Debug)]
pub(super) struct NestedModel {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) ty: Type,
    pub(super) constant: Ident,
    pub(super) span: Span,
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
            .filter_map(|field| Some((field.partition_key?.0, field)))
            .collect();
        fields.sort_by_key(|(level, _)| *level);
        fields.into_iter().map(|(_, field)| field).collect()
    }

    /// The field that holds the lease.
    pub(super) fn lease(&self) -> Option<&FieldModel> {
        self.fields.iter().find(|field| field.lease.is_some())
    }

    pub(super) fn field(&self, name: &str) -> Option<&FieldModel> {
        self.fields.iter().find(|field| field.name == name)
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

/// Builds the model. `pattern` is the parsed id pattern, empty when there is none that can be read.
pub(super) fn build(raw: RawDocument, pattern: Vec<Segment>) -> DocumentModel {
    let rule = raw.serde.rename_all;
    let may_lack_any = raw.serde.default;
    let stored = |field: &RawField| match &field.serde.rename {
        Some(name) => name.clone(),
        None => rule.apply_to_field(&field.ident.unraw().to_string()),
    };
    DocumentModel {
        krate: crate_path(&raw.settings),
        discriminator: raw
            .settings
            .discriminator
            .get()
            .map(|name| name.0.clone())
            .unwrap_or_default(),
        pattern,
        pattern_span: raw.settings.id.span().unwrap_or(raw.ident.span()),
        has_unreadable_fields: raw.fields.iter().any(|field| field.settings.unreadable),
        fields: raw
            .fields
            .into_iter()
            .map(|field| {
                let stored = stored(&field);
                let mut model = field_model(field, stored);
                model.may_be_absent |= may_lack_any;
                model
            })
            .collect(),
        composites: raw.settings.composite,
        uniques: raw.settings.unique,
        vis: raw.vis,
        ident: raw.ident,
    }
}

/// Where `cdb_model` is, `::cdb_model` unless said otherwise.
pub(super) fn crate_path(settings: &StructSettings) -> syn::Path {
    settings
        .krate
        .get()
        .map_or_else(|| syn::parse_quote!(::cdb_model), |path| path.0.clone())
}

fn field_model(raw: RawField, stored: String) -> FieldModel {
    let name = raw.ident.unraw().to_string();
    let settings = raw.settings;
    let unindexed = settings.unindexed.is_given();
    let mut nested: Vec<_> = settings
        .index
        .get()
        .into_iter()
        .flat_map(|index| &index.nested)
        .map(|path| nested_model(&name, &stored, path))
        .collect();
    if let Some(span) = settings.lease.word() {
        nested.push(lease_expiry(&name, &stored, span));
    }
    let indexing = match (settings.index.is_given(), unindexed) {
        (true, _) if nested.is_empty() => Indexing::Indexed,
        (false, true) => Indexing::Excluded,
        _ => Indexing::NotIndexed,
    };
    let bare = argument_of(&raw.ty, &["Option"]);
    FieldModel {
        is_array: is_array(bare.as_ref().unwrap_or(&raw.ty)),
        is_option: bare.is_some(),
        may_be_absent: raw.serde.default,
        constant: format_ident!("{}", name.to_uppercase(), span = raw.ident.span()),
        name,
        stored,
        partition_key: settings.partition_key.word().map(|span| {
            let level = match settings.partition_key.get().map(|key| key.level) {
                Some(Some(level)) => Level::Numbered(level),
                Some(None) => Level::Only,
                None => Level::Unreadable,
            };
            (level, span)
        }),
        indexing_given: match (settings.index.is_given(), unindexed) {
            (false, false) => Given::Nothing,
            (true, true) => Given::Both,
            _ => Given::One,
        },
        indexing,
        indexing_span: settings
            .index
            .word()
            .or(settings.unindexed.word())
            .unwrap_or(raw.ident.span()),
        nested,
        ttl: settings.ttl.word(),
        lease: settings.lease.word(),
        skip: raw.serde.skip,
        skip_serializing_if: raw.serde.skip_serializing_if,
        vis: raw.vis,
        ty: raw.ty,
        ident: raw.ident,
    }
}

fn nested_model(field: &str, stored: &str, path: &NestedPath) -> NestedModel {
    NestedModel {
        name: format!("{field}.{}", path.parts.join(".")),
        path: format!("/{stored}/{}", path.parts.join("/")),
        ty: path.ty.clone(),
        constant: nested_constant(field, &path.parts, path.span),
        span: path.span,
        through_array: path.parts.iter().any(|part| part == "[]"),
    }
}

/// A lease is looked for by when it expires.
fn lease_expiry(field: &str, stored: &str, span: Span) -> NestedModel {
    let until = ["until".to_owned()];
    NestedModel {
        name: format!("{field}.until"),
        path: format!("/{stored}/until"),
        ty: syn::parse_quote!(__model::Timestamp),
        constant: nested_constant(field, &until, span),
        span,
        through_array: false,
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

/// Whether serde writes a value of this type as a JSON array.
fn is_array(ty: &Type) -> bool {
    let collections = [
        "Vec",
        "VecDeque",
        "LinkedList",
        "HashSet",
        "BTreeSet",
        "BinaryHeap",
    ];
    matches!(ungrouped(ty), Type::Array(_) | Type::Slice(_))
        || argument_of(ty, &collections).is_some()
}

/// `T` of `Wrapper<T>`, however the wrapper is spelled.
fn argument_of(ty: &Type, wrappers: &[&str]) -> Option<Type> {
    let Type::Path(path) = ungrouped(ty) else {
        return None;
    };
    let last = path.path.segments.last()?;
    if !wrappers.iter().any(|wrapper| last.ident == wrapper) {
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

/// The type itself: what a `macro_rules!` macro hands on stands in an invisible group.
fn ungrouped(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => ungrouped(&group.elem),
        other => other,
    }
}
