//! What was written, every value with its place; nothing is decided here and everything is optional, so that one
//! mistake does not silence the others.

use darling::FromMeta;
use darling::error::Accumulator;
use proc_macro2::Ident;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Fields, Type};

use super::value::{
    CompositeSetting, IndexSetting, PartitionKeySetting, Pattern, TypeName, UniqueSetting,
};
use crate::diag::mistake;
use crate::serde_attr::{SerdeField, SerdeStruct};
use crate::settings::{CratePath, Mark, Setting, Vocabulary};

/// A struct as it was written.
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
    pub(super) krate: Setting<CratePath>,
    /// Whether an attribute could not be read at all, so that nothing can be missed.
    pub(super) unreadable: bool,
}

const OF_STRUCT: &[&str] = &["type", "id", "composite", "unique", "crate"];
const OF_FIELD: &[&str] = &["partition_key", "index", "unindexed", "ttl", "lease"];

impl StructSettings {
    /// Reads all attributes of the struct.
    pub(super) fn read(attributes: &[Attribute], errors: &mut Accumulator) -> Self {
        let vocabulary = Vocabulary {
            attribute: "document",
            words: OF_STRUCT,
            foreign: OF_FIELD,
            elsewhere: "a field, not of the struct",
        };
        let mut found = Self::default();
        let readable = vocabulary.read(attributes, errors, |word, errors| match &*word.name {
            "type" => found.discriminator.take(word, errors),
            "id" => found.id.take(word, errors),
            "composite" => found
                .composite
                .extend(errors.handle(CompositeSetting::from_meta(word.meta))),
            "unique" => found
                .unique
                .extend(errors.handle(UniqueSetting::from_meta(word.meta))),
            _ => found.krate.take(word, errors),
        });
        found.unreadable = !readable;
        found
    }
}

/// A field as it was written.
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
    pub(super) ttl: Setting<Mark>,
    pub(super) lease: Setting<Mark>,
    /// Whether an attribute could not be read at all, so that nothing can be missed.
    pub(super) unreadable: bool,
}

impl FieldSettings {
    fn read(attributes: &[Attribute], errors: &mut Accumulator) -> Self {
        let vocabulary = Vocabulary {
            attribute: "document",
            words: OF_FIELD,
            foreign: OF_STRUCT,
            elsewhere: "the struct, not of a field",
        };
        let mut found = Self::default();
        let readable = vocabulary.read(attributes, errors, |word, errors| match &*word.name {
            "partition_key" => found.partition_key.take(word, errors),
            "index" => found.index.take(word, errors),
            "unindexed" => found.unindexed.take(word, errors),
            "ttl" => found.ttl.take(word, errors),
            _ => found.lease.take(word, errors),
        });
        found.unreadable = !readable;
        found
    }
}

/// Reads a derive's input. `None` when its shape leaves nothing to read.
pub(super) fn read(input: &DeriveInput, errors: &mut Accumulator) -> Option<RawDocument> {
    let name = &input.ident;
    let fields = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => &fields.named,
            Fields::Unnamed(_) | Fields::Unit => {
                errors.push(mistake(
                    name.span(),
                    "`Document` needs a struct with named fields",
                ));
                return None;
            }
        },
        Data::Enum(_) | Data::Union(_) => {
            errors.push(mistake(
                name.span(),
                "`Document` needs a struct with named fields",
            ));
            return None;
        }
    };
    if let Some(parameter) = input.generics.params.first() {
        errors.push(mistake(
            parameter.span(),
            format!(
                "`{name}` is generic; a document type is one type, so write one struct per type"
            ),
        ));
    }
    let settings = StructSettings::read(&input.attrs, errors);
    let serde = SerdeStruct::read(&input.attrs, errors);
    let fields = fields
        .iter()
        .filter_map(|field| {
            Some(RawField {
                ident: field.ident.clone()?,
                ty: field.ty.clone(),
                vis: field.vis.clone(),
                settings: FieldSettings::read(&field.attrs, errors),
                serde: SerdeField::read(&field.attrs, errors),
            })
        })
        .collect();
    Some(RawDocument {
        ident: name.clone(),
        vis: input.vis.clone(),
        settings,
        serde,
        fields,
    })
}
