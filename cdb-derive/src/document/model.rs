//! The model of a document type: resolved names, computed paths, and their spans.

use proc_macro2::{Ident, Span};
use quote::format_ident;
use syn::ext::IdentExt;
use syn::{Path, Type};

use super::attr::{FieldSettings, RawDocument, RawField};
use super::computed::{ComputedSetting, Part};
use super::search::{FullTextSetting, VectorSetting};
use super::value::{CompositeSetting, NestedPath, PartitionKeySetting, UniqueSetting};
use crate::id_pattern::Segment;
use crate::serde_attr::SerdeStruct;
use crate::settings::Setting;

/// A document type.
#[derive(Debug)]
pub(crate) struct DocumentModel {
    pub(super) ident: Ident,
    pub(super) vis: syn::Visibility,
    /// The path of `cdb_model`.
    pub(super) krate: Path,
    pub(super) discriminator: String,
    /// The id pattern; empty if it is invalid.
    pub(super) pattern: Vec<Segment>,
    pub(super) pattern_span: Span,
    pub(super) fields: Vec<FieldModel>,
    /// Whether the attributes of a field could not be parsed, so that a missing setting is not
    /// reported.
    pub(super) has_unreadable_fields: bool,
    pub(super) composites: Vec<CompositeSetting>,
    pub(super) uniques: Vec<UniqueSetting>,
    pub(super) computed: Vec<ComputedModel>,
    /// The version, and its span.
    pub(super) version: Option<(u32, Span)>,
    /// Whether the version is invalid and has been reported.
    pub(super) has_unreadable_version: bool,
    /// The functions that upgrade from one version to the next.
    pub(super) upcasts: Vec<Path>,
    /// The span of `upcast`.
    pub(super) upcast_span: Option<Span>,
}

/// A field.
#[derive(Debug)]
pub(super) struct FieldModel {
    pub(super) ident: Ident,
    pub(super) vis: syn::Visibility,
    /// The name without `r#`.
    pub(super) name: String,
    pub(super) ty: Type,
    /// The stored name.
    pub(super) stored: String,
    pub(super) constant: Ident,
    /// The level of the partition key, and its span.
    pub(super) partition_key: Option<(Level, Span)>,
    pub(super) indexing: Indexing,
    /// The span of `index` or `unindexed`.
    pub(super) indexing_span: Span,
    pub(super) indexing_given: Given,
    pub(super) nested: Vec<NestedModel>,
    pub(super) ttl: Option<Span>,
    pub(super) lease: Option<Span>,
    /// The span of `unknown`: the field keeps the fields of newer versions.
    pub(super) unknown: Option<Span>,
    pub(super) flatten: Option<Span>,
    pub(super) soft_delete: Option<Span>,
    pub(super) created_at: Option<Span>,
    pub(super) updated_at: Option<Span>,
    pub(super) vector: Option<VectorSetting>,
    /// The setting of full-text search, and its span.
    pub(super) full_text: Option<(FullTextSetting, Span)>,
    pub(super) skip: Option<(String, Span)>,
    pub(super) skip_serializing_if: Option<Span>,
    /// Whether the field is an array, so that its path ends in `/[]`.
    pub(super) is_array: bool,
    pub(super) is_option: bool,
    /// Whether a document may lack the field.
    pub(super) may_be_absent: bool,
}

/// A computed property.
#[derive(Debug)]
pub(super) struct ComputedModel {
    pub(super) name: String,
    /// The name by which queries use it.
    pub(super) stored: String,
    pub(super) constant: Ident,
    pub(super) ty: Type,
    pub(super) expression: Vec<Part>,
    /// The span of the expression.
    pub(super) span: Span,
    pub(super) indexed: bool,
}

/// The level of a field in the partition key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// `partition_key`
    Only,
    /// `partition_key(1)`
    Numbered(usize),
    /// The level is invalid and has been reported.
    Unreadable,
}

/// How the indexing policy treats a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Indexing {
    Indexed,
    NotIndexed,
    Excluded,
}

/// Which of `index` and `unindexed` are given.
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
    /// Whether the path has no single value to filter by: it passes through an array, or is `*`.
    pub(super) is_multiple: bool,
    pub(super) indexed: bool,
}

impl DocumentModel {
    /// Returns the fields of the id pattern, in order.
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

    /// Returns the fields of the partition key, outermost level first.
    pub(super) fn partition_key(&self) -> Vec<&FieldModel> {
        let mut fields: Vec<_> = self
            .fields
            .iter()
            .filter_map(|field| Some((field.partition_key?.0, field)))
            .collect();
        fields.sort_by_key(|(level, _)| *level);
        fields.into_iter().map(|(_, field)| field).collect()
    }

    /// Returns the first field with a mark.
    pub(super) fn marked(&self, mark: fn(&FieldModel) -> Option<Span>) -> Option<&FieldModel> {
        self.fields.iter().find(|field| mark(field).is_some())
    }

    pub(super) fn field(&self, name: &str) -> Option<&FieldModel> {
        self.fields.iter().find(|field| field.name == name)
    }

    pub(super) fn computed(&self, name: &str) -> Option<&ComputedModel> {
        self.computed.iter().find(|computed| computed.name == name)
    }

    /// Whether a patch must not set the field, because it never changes or every write sets it.
    pub(super) fn is_fixed(&self, field: &FieldModel) -> bool {
        self.fixed_role(field).or(field.time_role()).is_some()
    }

    /// Returns why the field never changes: `the partition key` or `part of the id`.
    pub(super) fn fixed_role(&self, field: &FieldModel) -> Option<&'static str> {
        let in_id =
            |segment: &Segment| matches!(segment, Segment::Field(name) if *name == field.name);
        if field.partition_key.is_some() {
            Some("the partition key")
        } else {
            self.pattern.iter().any(in_id).then_some("part of the id")
        }
    }
}

impl NestedModel {
    /// Whether the path is every path inside the field.
    pub(super) fn is_wildcard(&self) -> bool {
        self.path.ends_with("/*")
    }
}

impl FieldModel {
    /// Whether documents are written with the field, even if it is never read.
    pub(super) fn is_written(&self) -> bool {
        let mut skip = self.skip.iter();
        skip.all(|(word, _)| word == "skip_deserializing")
    }

    /// Returns which time of a write the field is.
    pub(super) fn time_role(&self) -> Option<&'static str> {
        if self.created_at.is_some() {
            Some("the time of creation")
        } else {
            self.updated_at.map(|_| "the time of the last write")
        }
    }
}

/// Builds the model. `pattern` is the parsed id pattern, empty if it is missing or invalid.
pub(super) fn build(raw: RawDocument, pattern: Vec<Segment>) -> DocumentModel {
    let serde = &raw.serde;
    DocumentModel {
        krate: raw.settings.krate.path(),
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
            .map(|field| field_model(field, serde))
            .collect(),
        computed: raw
            .settings
            .computed
            .into_iter()
            .map(|setting| computed_model(setting, serde))
            .collect(),
        composites: raw.settings.composite,
        uniques: raw.settings.unique,
        has_unreadable_version: raw.settings.version.is_given()
            && raw.settings.version.get().is_none(),
        version: raw
            .settings
            .version
            .get()
            .map(|version| version.0)
            .zip(raw.settings.version.word()),
        upcast_span: raw.settings.upcast.word(),
        upcasts: raw
            .settings
            .upcast
            .get()
            .map(|upcast| upcast.0.clone())
            .unwrap_or_default(),
        vis: raw.vis,
        ident: raw.ident,
    }
}

fn computed_model(setting: ComputedSetting, serde: &SerdeStruct) -> ComputedModel {
    let name = setting.name.unraw().to_string();
    ComputedModel {
        stored: serde.rename_all.apply_to_field(&name),
        constant: format_ident!("{}", name.to_uppercase(), span = setting.name.span()),
        name,
        ty: setting.ty,
        expression: setting.expression,
        span: setting.span,
        indexed: setting.indexed,
    }
}

fn field_model(raw: RawField, serde: &SerdeStruct) -> FieldModel {
    let name = raw.ident.unraw().to_string();
    let settings = raw.settings;
    let stored = match raw.serde.rename {
        Some(name) => name,
        None => serde.rename_all.apply_to_field(&name),
    };
    let nested = nested_models(&settings, &name, &stored);
    let given = (settings.index.is_given(), settings.unindexed.is_given());
    let indexing_word = settings.index.word().or(settings.unindexed.word());
    let element = argument_of(&raw.ty, &["Option"]);
    FieldModel {
        is_array: is_array(element.as_ref().unwrap_or(&raw.ty)),
        is_option: element.is_some(),
        may_be_absent: raw.serde.default || serde.default,
        constant: format_ident!("{}", name.to_uppercase(), span = raw.ident.span()),
        name,
        stored,
        partition_key: level(&settings.partition_key),
        indexing_given: match given {
            (false, false) => Given::Nothing,
            (true, true) => Given::Both,
            (true, false) | (false, true) => Given::One,
        },
        indexing: match given {
            (true, _) if !nested.iter().any(|path| path.indexed) => Indexing::Indexed,
            (false, true) => Indexing::Excluded,
            _ if settings.soft_delete.is_given() => Indexing::Indexed,
            (true, _) | (false, false) => Indexing::NotIndexed,
        },
        indexing_span: indexing_word.unwrap_or(raw.ident.span()),
        nested,
        ttl: settings.ttl.word(),
        lease: settings.lease.word(),
        // The fields of newer versions have no stored name of their own.
        skip: settings
            .unknown
            .word()
            .map_or(raw.serde.skip, |span| Some(("unknown".to_owned(), span))),
        unknown: settings.unknown.word(),
        flatten: raw.serde.flatten,
        soft_delete: settings.soft_delete.word(),
        created_at: settings.created_at.word(),
        updated_at: settings.updated_at.word(),
        vector: settings.vector.get().cloned(),
        full_text: settings
            .full_text
            .get()
            .cloned()
            .zip(settings.full_text.word()),
        skip_serializing_if: raw.serde.skip_serializing_if,
        vis: raw.vis,
        ty: raw.ty,
        ident: raw.ident,
    }
}

fn level(setting: &Setting<PartitionKeySetting>) -> Option<(Level, Span)> {
    let level = match setting.get().map(|key| key.level) {
        Some(Some(level)) => Level::Numbered(level),
        Some(None) => Level::Only,
        None => Level::Unreadable,
    };
    Some((level, setting.word()?))
}

/// Returns the declared paths inside a field, and the expiry of a lease.
fn nested_models(settings: &FieldSettings, field: &str, stored: &str) -> Vec<NestedModel> {
    let index = settings.index.get().into_iter();
    let indexed = index.flat_map(|index| &index.nested);
    let indexed = indexed.map(|path| nested_model(field, stored, path, true));
    let paths = settings.paths.get().into_iter();
    let paths = paths.flat_map(|paths| &paths.nested);
    let paths = paths.map(|path| nested_model(field, stored, path, false));
    let lease = settings.lease.word();
    indexed
        .chain(paths)
        .chain(lease.map(|span| lease_expiry(field, stored, span)))
        .collect()
}

fn nested_model(field: &str, stored: &str, path: &NestedPath, indexed: bool) -> NestedModel {
    NestedModel {
        name: format!("{field}.{}", path.parts.join(".")),
        path: format!("/{stored}/{}", path.parts.join("/")),
        ty: path.ty.clone(),
        constant: nested_constant(field, &path.parts, path.span),
        span: path.span,
        is_multiple: path.parts.iter().any(|part| part == "[]" || part == "*"),
        indexed,
    }
}

/// Returns the path of a lease's expiry, by which expired leases are found.
fn lease_expiry(field: &str, stored: &str, span: Span) -> NestedModel {
    let until = ["until".to_owned()];
    NestedModel {
        name: format!("{field}.until"),
        path: format!("/{stored}/until"),
        ty: syn::parse_quote!(__model::Timestamp),
        constant: nested_constant(field, &until, span),
        span,
        is_multiple: false,
        indexed: true,
    }
}

fn nested_constant(field: &str, parts: &[String], span: Span) -> Ident {
    let mut name = field.to_uppercase();
    for part in parts.iter().filter(|part| *part != "[]") {
        name.push('_');
        let part = if part == "*" { "all" } else { part };
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

/// Returns `T` of `Wrapper<T>`, with or without a path before the wrapper.
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

/// Removes the invisible groups that a `macro_rules!` macro puts around its arguments.
fn ungrouped(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => ungrouped(&group.elem),
        other => other,
    }
}
