//! The attributes of a struct as written, every value with its span. Everything is optional, so
//! that all mistakes are reported.

use darling::FromMeta;
use darling::error::Accumulator;
use proc_macro2::Ident;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Fields, Type};

use super::computed::ComputedSetting;
use super::search::{FullTextSetting, VectorSetting};
use super::value::{
    CompositeSetting, IndexSetting, PartitionKeySetting, PathsSetting, Pattern, TypeName,
    UniqueSetting, UpcastSetting, VersionSetting,
};
use crate::diag::mistake;
use crate::serde_attr::{SerdeField, SerdeStruct};
use crate::settings::{CratePath, Mark, Setting, Vocabulary};

/// A struct as written.
#[derive(Debug)]
pub(super) struct RawDocument {
    pub(super) ident: Ident,
    pub(super) vis: syn::Visibility,
    pub(super) settings: StructSettings,
    pub(super) serde: SerdeStruct,
    pub(super) fields: Vec<RawField>,
}

/// `#[document(…)]` of the struct.
#[derive(Debug, Default)]
pub(super) struct StructSettings {
    pub(super) discriminator: Setting<TypeName>,
    pub(super) id: Setting<Pattern>,
    pub(super) composite: Vec<CompositeSetting>,
    pub(super) unique: Vec<UniqueSetting>,
    pub(super) version: Setting<VersionSetting>,
    pub(super) upcast: Setting<UpcastSetting>,
    pub(super) computed: Vec<ComputedSetting>,
    pub(super) krate: Setting<CratePath>,
    /// Whether an attribute could not be parsed, so that missing settings are not reported.
    pub(super) unreadable: bool,
}

#[derive(Clone, Copy)]
enum OfStruct {
    Type,
    Id,
    Composite,
    Unique,
    Version,
    Upcast,
    Computed,
    Crate,
}

const OF_STRUCT: &[(&str, OfStruct)] = &[
    ("type", OfStruct::Type),
    ("id", OfStruct::Id),
    ("composite", OfStruct::Composite),
    ("unique", OfStruct::Unique),
    ("version", OfStruct::Version),
    ("upcast", OfStruct::Upcast),
    ("computed", OfStruct::Computed),
    ("crate", OfStruct::Crate),
];

#[derive(Clone, Copy)]
enum OfField {
    PartitionKey,
    Index,
    Unindexed,
    Paths,
    Ttl,
    Lease,
    Unknown,
    SoftDelete,
    CreatedAt,
    UpdatedAt,
    Vector,
    FullText,
}

const OF_FIELD: &[(&str, OfField)] = &[
    ("partition_key", OfField::PartitionKey),
    ("index", OfField::Index),
    ("unindexed", OfField::Unindexed),
    ("paths", OfField::Paths),
    ("ttl", OfField::Ttl),
    ("lease", OfField::Lease),
    ("unknown", OfField::Unknown),
    ("soft_delete", OfField::SoftDelete),
    ("created_at", OfField::CreatedAt),
    ("updated_at", OfField::UpdatedAt),
    ("vector", OfField::Vector),
    ("full_text", OfField::FullText),
];

impl StructSettings {
    /// Reads all attributes of the struct.
    pub(super) fn read(attributes: &[Attribute], errors: &mut Accumulator) -> Self {
        let vocabulary = Vocabulary {
            attribute: "document",
            settings: OF_STRUCT,
            foreign: OF_FIELD,
            elsewhere: "a field, not of the struct",
        };
        let mut found = Self::default();
        let readable = vocabulary.read(attributes, errors, |setting, word, errors| match setting {
            OfStruct::Type => found.discriminator.take(word, errors),
            OfStruct::Id => found.id.take(word, errors),
            OfStruct::Composite => found
                .composite
                .extend(errors.handle(CompositeSetting::from_meta(word.meta))),
            OfStruct::Unique => found
                .unique
                .extend(errors.handle(UniqueSetting::from_meta(word.meta))),
            OfStruct::Version => found.version.take(word, errors),
            OfStruct::Upcast => found.upcast.take(word, errors),
            OfStruct::Computed => found
                .computed
                .extend(errors.handle(ComputedSetting::from_meta(word.meta))),
            OfStruct::Crate => found.krate.take(word, errors),
        });
        found.unreadable = !readable;
        found
    }
}

/// A field as written.
#[derive(Debug)]
pub(super) struct RawField {
    pub(super) ident: Ident,
    pub(super) vis: syn::Visibility,
    pub(super) ty: Type,
    pub(super) settings: FieldSettings,
    pub(super) serde: SerdeField,
}

/// `#[document(…)]` of a field.
#[derive(Debug, Default)]
pub(super) struct FieldSettings {
    pub(super) partition_key: Setting<PartitionKeySetting>,
    pub(super) index: Setting<IndexSetting>,
    pub(super) unindexed: Setting<Mark>,
    pub(super) paths: Setting<PathsSetting>,
    pub(super) ttl: Setting<Mark>,
    pub(super) lease: Setting<Mark>,
    pub(super) unknown: Setting<Mark>,
    pub(super) soft_delete: Setting<Mark>,
    pub(super) created_at: Setting<Mark>,
    pub(super) updated_at: Setting<Mark>,
    pub(super) vector: Setting<VectorSetting>,
    pub(super) full_text: Setting<FullTextSetting>,
    /// Whether an attribute could not be parsed, so that missing settings are not reported.
    pub(super) unreadable: bool,
}

impl FieldSettings {
    fn read(attributes: &[Attribute], errors: &mut Accumulator) -> Self {
        let vocabulary = Vocabulary {
            attribute: "document",
            settings: OF_FIELD,
            foreign: OF_STRUCT,
            elsewhere: "the struct, not of a field",
        };
        let mut found = Self::default();
        let readable = vocabulary.read(attributes, errors, |setting, word, errors| match setting {
            OfField::PartitionKey => found.partition_key.take(word, errors),
            OfField::Index => found.index.take(word, errors),
            OfField::Unindexed => found.unindexed.take(word, errors),
            OfField::Paths => found.paths.take(word, errors),
            OfField::Ttl => found.ttl.take(word, errors),
            OfField::Lease => found.lease.take(word, errors),
            OfField::Unknown => found.unknown.take(word, errors),
            OfField::SoftDelete => found.soft_delete.take(word, errors),
            OfField::CreatedAt => found.created_at.take(word, errors),
            OfField::UpdatedAt => found.updated_at.take(word, errors),
            OfField::Vector => found.vector.take(word, errors),
            OfField::FullText => found.full_text.take(word, errors),
        });
        found.unreadable = !readable;
        found
    }
}

/// Reads the input of the derive. Returns `None` if it is not a struct with named fields.
pub(super) fn read(input: &DeriveInput, errors: &mut Accumulator) -> Option<RawDocument> {
    let name = &input.ident;
    let fields = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => Some(&fields.named),
            Fields::Unnamed(_) | Fields::Unit => None,
        },
        Data::Enum(_) | Data::Union(_) => None,
    };
    let Some(fields) = fields else {
        let text = "`Document` needs a struct with named fields";
        errors.push(mistake(name.span(), text));
        return None;
    };
    if let Some(parameter) = input.generics.params.first() {
        errors.push(mistake(
            parameter.span(),
            format!(
                "`{name}` is generic; a document type is one type, so write one struct per type"
            ),
        ));
    }
    Some(RawDocument {
        ident: name.clone(),
        vis: input.vis.clone(),
        settings: StructSettings::read(&input.attrs, errors),
        serde: SerdeStruct::read(&input.attrs, errors),
        fields: fields
            .iter()
            .filter_map(|field| RawField::read(field, errors))
            .collect(),
    })
}

impl RawField {
    fn read(field: &syn::Field, errors: &mut Accumulator) -> Option<Self> {
        Some(Self {
            ident: field.ident.clone()?,
            ty: field.ty.clone(),
            vis: field.vis.clone(),
            settings: FieldSettings::read(&field.attrs, errors),
            serde: SerdeField::read(&field.attrs, errors),
        })
    }
}
