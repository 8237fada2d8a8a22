//! The settings of a struct and of its fields, every value with its span. Everything is optional, so
//! that all mistakes are reported.

use super::computed::ComputedSetting;
use super::role::Marks;
use super::search::{FullTextSetting, VectorSetting};
use super::value::{
    Bound, CompositeSetting, IdPartSetting, Level, NestedPaths, UniqueSetting, UpcastSetting,
    VersionSetting,
};
use crate::input::settings::{CratePath, Mark, Setting, Text, settings};

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
