//! What was written, every value with its place; nothing is decided here.

use darling::FromMeta;
use darling::error::Accumulator;
use proc_macro2::Ident;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Expr, Fields, Lit, Meta, Type};

use crate::diag::mistake;
use crate::settings::{CratePath, Mark, Setting, Vocabulary, text, ungrouped};

/// An enum as it was written.
#[derive(Debug)]
pub(super) struct RawContainer {
    pub(super) ident: Ident,
    pub(super) settings: ContainerSettings,
    pub(super) variants: Vec<RawVariant>,
    /// Whether some variant could not be read, and has been reported.
    pub(super) has_unreadable_variants: bool,
}

/// `#[container(…)]` of the enum.
#[derive(Debug, Default)]
pub(super) struct ContainerSettings {
    pub(super) partition_key: Setting<PartitionKeyPaths>,
    pub(super) discriminator: Setting<Property>,
    pub(super) default_ttl: Setting<TtlSetting>,
    pub(super) krate: Setting<CratePath>,
    /// Whether an attribute could not be read at all, so that nothing can be missed.
    pub(super) unreadable: bool,
}

const OF_ENUM: &[&str] = &["partition_key", "discriminator", "default_ttl", "crate"];
const OF_VARIANT: &[&str] = &["extends"];

impl ContainerSettings {
    /// Reads all attributes of the enum.
    pub(super) fn read(attributes: &[Attribute], errors: &mut Accumulator) -> Self {
        let vocabulary = Vocabulary {
            attribute: "container",
            words: OF_ENUM,
            foreign: OF_VARIANT,
            elsewhere: "a variant, not of the enum",
        };
        let mut found = Self::default();
        let readable = vocabulary.read(attributes, errors, |word, errors| match &*word.name {
            "partition_key" => found.partition_key.take(word, errors),
            "discriminator" => found.discriminator.take(word, errors),
            "default_ttl" => found.default_ttl.take(word, errors),
            _ => found.krate.take(word, errors),
        });
        found.unreadable = !readable;
        found
    }
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

/// `discriminator = "type"`.
#[derive(Clone, Debug)]
pub(super) struct Property(pub(super) String);

impl FromMeta for Property {
    fn from_meta(meta: &Meta) -> darling::Result<Self> {
        text(meta, "type").map(Self)
    }
}

/// `default_ttl = …`.
#[derive(Clone, Copy, Debug)]
pub(super) enum TtlSetting {
    Off,
    PerDocument,
    Seconds(u32),
}

impl FromMeta for TtlSetting {
    fn from_meta(meta: &Meta) -> darling::Result<Self> {
        let form = "`default_ttl` is `\"off\"`, `\"per_document\"`, or a number of seconds from 1";
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
                Ok(seconds @ 1..) => Ok(Self::Seconds(seconds)),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }
}

/// A variant as it was written.
#[derive(Debug)]
pub(super) struct RawVariant {
    pub(super) ident: Ident,
    pub(super) ty: Type,
    pub(super) extends: Setting<Mark>,
}

fn extends(attributes: &[Attribute], errors: &mut Accumulator) -> Setting<Mark> {
    let vocabulary = Vocabulary {
        attribute: "container",
        words: OF_VARIANT,
        foreign: OF_ENUM,
        elsewhere: "the enum, not of a variant",
    };
    let mut extends = Setting::default();
    vocabulary.read(attributes, errors, |word, errors| {
        extends.take(word, errors);
    });
    extends
}

/// Reads a derive's input. `None` when its shape leaves nothing to read.
pub(super) fn read(input: &DeriveInput, errors: &mut Accumulator) -> Option<RawContainer> {
    let name = &input.ident;
    let Data::Enum(data) = &input.data else {
        errors.push(mistake(
            name.span(),
            "`Container` needs an enum with one variant per document type",
        ));
        return None;
    };
    if let Some(parameter) = input.generics.params.first() {
        errors.push(mistake(
            parameter.span(),
            format!("`{name}` is generic; a container is one type"),
        ));
    }
    let settings = ContainerSettings::read(&input.attrs, errors);
    let mut variants = Vec::new();
    let mut has_unreadable_variants = false;
    for variant in &data.variants {
        let extends = extends(&variant.attrs, errors);
        match &variant.fields {
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => variants.push(RawVariant {
                ident: variant.ident.clone(),
                ty: fields.unnamed[0].ty.clone(),
                extends,
            }),
            _ => {
                has_unreadable_variants = true;
                errors.push(mistake(
                    variant.ident.span(),
                    format!(
                        "variant `{0}` must hold one document type, `{0}(Type)`",
                        variant.ident
                    ),
                ));
            }
        }
    }
    Some(RawContainer {
        ident: name.clone(),
        settings,
        variants,
        has_unreadable_variants,
    })
}
