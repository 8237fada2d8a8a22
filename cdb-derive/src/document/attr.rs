//! The attributes of a struct as written, every value with its span. Everything is optional, so
//! that all mistakes are reported.

use darling::error::Accumulator;
use proc_macro2::Ident;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Type};

use super::computed::ComputedSetting;
use super::role::Marks;
use super::search::{FullTextSetting, VectorSetting};
use super::value::{
    Bound, CompositeSetting, IdPartSetting, Level, NestedPaths, UniqueSetting, UpcastSetting,
    VersionSetting,
};
use crate::derived::named_fields;
use crate::diag::mistake;
use crate::serde_attr::{SerdeField, SerdeStruct};
use crate::settings::{CratePath, Mark, Setting, Text, settings};

/// A struct as written.
#[derive(Debug)]
pub(super) struct RawDocument {
    pub(super) ident: Ident,
    pub(super) vis: syn::Visibility,
    pub(super) generics: syn::Generics,
    pub(super) settings: StructSettings,
    pub(super) serde: SerdeStruct,
    pub(super) fields: Vec<RawField>,
}

settings! {
    /// `#[document(…)]` of the struct.
    struct StructSettings = "document" {
        "type" => discriminator: Setting<Text>,
        "id" => id: Setting<Text>,
        "composite" => composite: Vec<CompositeSetting>,
        "unique" => unique: Vec<UniqueSetting>,
        "version" => version: Setting<VersionSetting>,
        "upcast" => upcast: Setting<UpcastSetting>,
        "computed" => computed: Vec<ComputedSetting>,
        "bound" => bound: Setting<Bound>,
        "id_part" => id_part: Vec<IdPartSetting>,
        "crate" => krate: Setting<CratePath>,
    }
    foreign: FieldSettings::WORDS, "a field, not of the struct"
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

settings! {
    /// `#[document(…)]` of a field.
    struct FieldSettings = "document" {
        "partition_key" => partition_key: Setting<Level>,
        "index" => index: Setting<NestedPaths>,
        "unindexed" => unindexed: Setting<Mark>,
        "paths" => paths: Setting<NestedPaths>,
        "ttl" | "lease" | "unknown" | "soft_delete" | "created_at" | "updated_at" => marks: Marks,
        "vector" => vector: Setting<VectorSetting>,
        "full_text" => full_text: Setting<FullTextSetting>,
    }
    foreign: StructSettings::WORDS, "the struct, not of a field"
}

/// Reads the input of the derive. Returns `None` if it is not a struct with named fields.
pub(super) fn read(input: &DeriveInput, errors: &mut Accumulator) -> Option<RawDocument> {
    let name = &input.ident;
    let text = match input.data {
        Data::Enum(_) => {
            "`Document` needs a struct; put the common fields into a struct, and the enum into one of its fields"
        }
        Data::Struct(_) | Data::Union(_) => "`Document` needs a struct with named fields",
    };
    let fields = named_fields(input, text, errors)?;
    if let Some(lifetime) = input.generics.lifetimes().next() {
        let text = format!("`{name}` borrows, but it is read from JSON; own its content");
        errors.push(mistake(lifetime.span(), text));
    }
    Some(RawDocument {
        ident: name.clone(),
        vis: input.vis.clone(),
        generics: input.generics.clone(),
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
