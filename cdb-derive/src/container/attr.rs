//! The settings of an enum and of its variants, every value with its span.

use darling::FromMeta;
use syn::spanned::Spanned;
use syn::{Expr, Lit, Meta};

use crate::input::diag::mistake;
use crate::input::settings::{CratePath, Mark, Setting, Text, settings, text, ungrouped};

settings! {
    /// `#[container(…)]` of the enum.
    struct ContainerSettings = "container" {
        "partition_key" => partition_key: Setting<PartitionKeyPaths>,
        "discriminator" => discriminator: Setting<Text>,
        "default_ttl" => default_ttl: Setting<TtlSetting>,
        "crate" => krate: Setting<CratePath>,
    }
    foreign: VariantSettings::WORDS, "a variant, not of the enum"
}

settings! {
    /// `#[container(…)]` of a variant.
    struct VariantSettings = "container" {
        "extends" => extends: Setting<Mark>,
    }
    foreign: ContainerSettings::WORDS, "the enum, not of a variant"
}

/// `partition_key = "/tenantId, /userId"`, split at the commas.
#[derive(Clone, Debug)]
pub(super) struct PartitionKeyPaths(pub(super) Vec<String>);

impl FromMeta for PartitionKeyPaths {
    fn from_meta(meta: &Meta) -> darling::Result<Self> {
        let paths = text(meta, "/customerId")?;
        Ok(Self(
            paths
                .split(',')
                .map(|path| path.trim().to_owned())
                .collect(),
        ))
    }
}

/// Longest time to live in seconds ("Time to live": the maximum of `Int32`).
const MAX_TTL_SECONDS: u32 = i32::MAX.unsigned_abs();

/// `default_ttl = …`.
#[derive(Clone, Copy, Debug)]
pub(super) enum TtlSetting {
    Off,
    PerDocument,
    Seconds(u32),
}

impl FromMeta for TtlSetting {
    fn from_meta(meta: &Meta) -> darling::Result<Self> {
        let form = "`default_ttl` is `\"off\"`, `\"per_document\"`, or a number of seconds from 1 to 2147483647";
        let Meta::NameValue(setting) = meta else {
            return Err(mistake(meta.path().span(), form));
        };
        let wrong = || mistake(setting.value.span(), form);
        let Expr::Lit(value) = ungrouped(&setting.value) else {
            return Err(wrong());
        };
        match &value.lit {
            Lit::Str(text) if text.value() == "off" => Ok(Self::Off),
            Lit::Str(text) if text.value() == "per_document" => Ok(Self::PerDocument),
            Lit::Int(seconds) => match seconds.base10_parse() {
                Ok(seconds @ 1..=MAX_TTL_SECONDS) => Ok(Self::Seconds(seconds)),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }
}
