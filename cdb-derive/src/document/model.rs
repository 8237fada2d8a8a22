//! The model of a document type: resolved names, computed paths, and their spans.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{DeriveInput, Generics, Type, WherePredicate};

use super::attr::{FieldSettings, StructSettings};
use super::computed::{ComputedSetting, Part};
use super::role::{Role, Rules};
use super::value::{Bound, Level, NestedPath};
use crate::document::id_pattern::Segment;
use crate::input::serde_attr::{SerdeDefault, SerdeField, SerdeStruct};

/// A document type.
#[derive(Debug)]
pub(crate) struct DocumentModel {
    pub(super) ident: Ident,
    pub(super) vis: syn::Visibility,
    /// The generic parameters as declared.
    pub(super) declared: Generics,
    /// The generic parameters with the bounds that a document needs.
    pub(super) generics: Generics,
    /// Whether the type has mistakes, so that its code compiles and never runs.
    pub(super) is_stub: bool,
    pub(super) settings: StructSettings,
    /// The id pattern; empty if it is not given.
    pub(super) pattern: Vec<Segment>,
    pub(super) fields: Vec<FieldModel>,
    /// The methods whose values are parts of the id, as fields that are not stored.
    pub(super) id_parts: Vec<FieldModel>,
    pub(super) computed: Vec<ComputedModel>,
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
    pub(super) nested: Vec<NestedModel>,
    /// The role, and the span of its setting. A second one is a mistake.
    pub(super) roles: Vec<(Role, Span)>,
    pub(super) settings: FieldSettings,
    pub(super) serde: SerdeField,
    /// Whether the field is an array, so that its path ends in `/[]`.
    pub(super) is_array: bool,
    pub(super) is_option: bool,
    /// What serde's `default` reads a missing field as, of the field or of its struct.
    pub(super) default: Option<Absent>,
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

/// The default of a field, or that of the struct, of which the field is taken.
#[derive(Clone, Debug)]
pub(super) enum Absent {
    Field(SerdeDefault),
    OfStruct(SerdeDefault),
}

/// How the indexing policy treats a field.
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
    /// Whether the path has no single value to filter by: it passes through an array, or is `*`.
    pub(super) is_multiple: bool,
    pub(super) indexed: bool,
}

impl DocumentModel {
    /// Builds the model, without its id pattern.
    pub(super) fn new(
        input: &DeriveInput,
        mut settings: StructSettings,
        serde: &SerdeStruct,
        fields: Vec<FieldModel>,
    ) -> Self {
        let computed = std::mem::take(&mut settings.computed).into_iter();
        let id_parts = settings.id_part.iter().filter_map(|part| {
            let (settings, own) = (FieldSettings::default(), SerdeField::default());
            FieldModel::new(&part.0, settings, own, serde)
        });
        Self {
            ident: input.ident.clone(),
            vis: input.vis.clone(),
            generics: bounded(input.generics.clone(), settings.bound.get()),
            declared: input.generics.clone(),
            is_stub: false,
            pattern: Vec::new(),
            fields,
            id_parts: id_parts.collect(),
            computed: computed
                .map(|setting| computed_model(setting, serde))
                .collect(),
            settings,
        }
    }

    /// Returns the fields of the id pattern, in order.
    pub(super) fn key_fields(&self) -> Vec<&FieldModel> {
        let mut fields: Vec<&FieldModel> = Vec::new();
        for segment in &self.pattern {
            if let Segment::Field(name) = segment
                && let Some(field) = self.placeholder(name)
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

    /// Returns the span of the id pattern.
    pub(super) fn pattern_span(&self) -> Span {
        self.settings.id.span().unwrap_or(self.ident.span())
    }

    /// Whether the attributes of a field could not be parsed, so that a missing setting is not
    /// reported.
    pub(super) fn has_unreadable_fields(&self) -> bool {
        self.fields.iter().any(|field| field.settings.unreadable)
    }

    /// Returns the partition key as a struct of its fields, if it is one.
    pub(super) fn flattened_key(&self) -> Option<&FieldModel> {
        let mut fields = self.fields.iter();
        fields.find(|field| field.partition_key.is_some() && field.serde.flatten.is_some())
    }

    /// Returns the fields with a role.
    pub(super) fn in_role(&self, role: Role) -> impl Iterator<Item = (&FieldModel, Span)> {
        let fields = self.fields.iter();
        fields.filter_map(move |field| Some((field, field.in_role(role)?)))
    }

    /// Returns the field or method of a placeholder.
    pub(super) fn placeholder(&self, name: &str) -> Option<&FieldModel> {
        let stored = self
            .fields
            .iter()
            .filter(|field| field.serde.flatten.is_none());
        let mut known = stored.chain(&self.id_parts);
        known.find(|field| field.name == name)
    }

    /// Returns the type of the document.
    pub(super) fn ty(&self) -> TokenStream {
        let (ident, (_, arguments, _)) = (&self.ident, self.generics.split_for_impl());
        quote!(#ident #arguments)
    }

    pub(super) fn key_ident(&self) -> Ident {
        format_ident!("{}Key", self.ident)
    }

    /// Returns the type of the key.
    pub(super) fn key_ty(&self) -> TokenStream {
        let (ident, (_, arguments, _)) = (self.key_ident(), self.generics.split_for_impl());
        quote!(#ident #arguments)
    }

    pub(super) fn field(&self, name: &str) -> Option<&FieldModel> {
        self.fields.iter().find(|field| field.name == name)
    }

    pub(super) fn computed(&self, name: &str) -> Option<&ComputedModel> {
        self.computed.iter().find(|computed| computed.name == name)
    }

    /// Whether a patch must not set the field, because it never changes or every write sets it.
    pub(super) fn is_fixed(&self, field: &FieldModel) -> bool {
        let is_fixed = self.fixed_role(field).is_some() && !self.is_stub;
        is_fixed || field.set_by_writes().is_some()
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

impl Indexing {
    pub(super) fn declared(indexed: bool) -> Self {
        if indexed {
            Self::Indexed
        } else {
            Self::NotIndexed
        }
    }
}

impl FieldModel {
    /// Builds the model of a field; `None` if it has no name.
    pub(super) fn new(
        field: &syn::Field,
        settings: FieldSettings,
        own: SerdeField,
        serde: &SerdeStruct,
    ) -> Option<Self> {
        let ident = field.ident.clone()?;
        let name = ident.unraw().to_string();
        let renamed = own.rename.clone();
        let stored = renamed.unwrap_or_else(|| serde.rename_all.apply_to_field(&name));
        let mut roles = settings.marks.0.clone();
        roles.extend(settings.vector.word().map(|span| (Role::Vector, span)));
        roles.extend(settings.full_text.word().map(|span| (Role::FullText, span)));
        let nested = nested_models(&settings, &name, &stored);
        let element = argument_of(&field.ty, &["Option"]);
        Some(Self {
            is_array: is_array(element.as_ref().unwrap_or(&field.ty)),
            is_option: element.is_some(),
            default: match (&own.default, &serde.default) {
                (Some(default), _) => Some(Absent::Field(default.clone())),
                (None, Some(default)) => Some(Absent::OfStruct(default.clone())),
                (None, None) => None,
            },
            constant: format_ident!("{}", name.to_uppercase(), span = ident.span()),
            name,
            stored,
            partition_key: settings.partition_key.word().map(|span| {
                let level = settings.partition_key.get();
                (level.copied().unwrap_or(Level::Unreadable), span)
            }),
            indexing: match (settings.index.is_given(), settings.unindexed.is_given()) {
                (true, _) if !nested.iter().any(|path| path.indexed) => Indexing::Indexed,
                (false, true) => Indexing::Excluded,
                _ if roles.iter().any(|(role, _)| *role == Role::SoftDelete) => Indexing::Indexed,
                (true, _) | (false, false) => Indexing::NotIndexed,
            },
            nested,
            roles,
            settings,
            serde: own,
            vis: field.vis.clone(),
            ty: field.ty.clone(),
            ident,
        })
    }

    /// Whether documents are written with the field, even if it is never read.
    pub(super) fn is_written(&self) -> bool {
        let mut skip = self.serde.skip.iter();
        self.serde.flatten.is_none() && skip.all(|(word, _)| word == "skip_deserializing")
    }

    /// Returns the span of `index` or `unindexed`.
    pub(super) fn index_word(&self) -> Option<Span> {
        let settings = &self.settings;
        settings.index.word().or(settings.unindexed.word())
    }

    /// Returns the stored path.
    pub(super) fn pointer(&self) -> String {
        format!("/{}", self.stored)
    }

    /// Whether a document may lack the field.
    pub(super) fn is_optional(&self) -> bool {
        self.is_option || self.default.is_some() || self.serde.skip_serializing_if.is_some()
    }

    /// Whether the field has a stored path.
    pub(super) fn has_path(&self) -> bool {
        self.serde.flatten.is_none() && self.serde.skip.is_none()
    }

    /// Returns the span of the setting if the field has the role.
    pub(super) fn in_role(&self, role: Role) -> Option<Span> {
        let mut roles = self.roles.iter();
        roles.find_map(|(known, span)| (*known == role).then_some(*span))
    }

    /// Returns what follows from the role of the field.
    pub(super) fn rules(&self) -> Option<Rules> {
        self.roles.first().map(|(role, _)| role.rules())
    }

    /// Returns what the field is if writes set it.
    pub(super) fn set_by_writes(&self) -> Option<&'static str> {
        let rules = self.rules().filter(|rules| rules.is_set_by_writes);
        rules.map(|rules| rules.meaning)
    }

    pub(super) fn has_own_index(&self) -> bool {
        self.rules().is_some_and(|rules| rules.has_own_index)
    }
}

/// Adds the bounds that a document needs: the given ones, or for each type those of a field.
fn bounded(mut generics: Generics, bound: Option<&Bound>) -> Generics {
    let inferred = generics.type_params().map(|parameter| -> WherePredicate {
        let ident = &parameter.ident;
        syn::parse_quote!(#ident: __model::StoredField)
    });
    let predicates = bound.map_or_else(|| inferred.collect(), |bound| bound.0.clone());
    if !predicates.is_empty() {
        generics.make_where_clause().predicates.extend(predicates);
    }
    generics
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

/// Returns the declared paths inside a field, and the expiry of a lease.
fn nested_models(settings: &FieldSettings, field: &str, stored: &str) -> Vec<NestedModel> {
    let index = settings.index.get().into_iter();
    let indexed = index.flat_map(|index| index.0.clone());
    // Expired leases are found by their expiry.
    let marks = settings.marks.0.iter();
    let leases = marks.filter(|(role, _)| *role == Role::Lease);
    let expiry = leases.map(|(_, span)| NestedPath {
        parts: vec!["until".to_owned()],
        ty: syn::parse_quote!(__model::Timestamp),
        span: *span,
    });
    let indexed = indexed.chain(expiry).map(|path| (path, true));
    let paths = settings.paths.get().into_iter();
    let paths = paths.flat_map(|paths| paths.0.clone());
    let all = indexed.chain(paths.map(|path| (path, false)));
    all.map(|(path, indexed)| nested_model(field, stored, path, indexed))
        .collect()
}

fn nested_model(field: &str, stored: &str, path: NestedPath, indexed: bool) -> NestedModel {
    NestedModel {
        name: format!("{field}.{}", path.parts.join(".")),
        path: format!("/{stored}/{}", path.parts.join("/")),
        constant: nested_constant(field, &path.parts, path.span),
        is_multiple: path.is_multiple(),
        ty: path.ty,
        indexed,
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
