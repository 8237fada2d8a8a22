//! What was written, every value with its place; nothing is decided here.

use darling::error::Accumulator;
use darling::util::{Flag, SpannedValue};
use darling::{Error, FromAttributes, FromMeta};
use proc_macro2::Ident;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Fields, Lit, Type};

use crate::diag::mistake;

/// An enum as it was written.
#[derive(Debug)]
pub(super) struct RawContainer {
    pub(super) ident: Ident,
    pub(super) settings: ContainerSettings,
    pub(super) variants: Vec<RawVariant>,
}

/// `#[container(…)]` of the enum.
#[derive(Debug, Default, FromAttributes)]
#[darling(attributes(container), default)]
pub(super) struct ContainerSettings {
    pub(super) partition_key: Option<SpannedValue<String>>,
    pub(super) discriminator: Option<SpannedValue<String>>,
    pub(super) default_ttl: Option<TtlSetting>,
    #[darling(rename = "crate")]
    pub(super) krate: Option<syn::Path>,
}

/// `default_ttl = …`.
#[derive(Clone, Copy, Debug)]
pub(super) enum TtlSetting {
    Off,
    PerDocument,
    Seconds(u32),
}

impl FromMeta for TtlSetting {
    fn from_value(value: &Lit) -> Result<Self, Error> {
        let wrong = || {
            mistake(
                value.span(),
                "`default_ttl` is `\"off\"`, `\"per_document\"`, or a number of seconds from 1",
            )
        };
        match value {
            Lit::Str(text) => match &*text.value() {
                "off" => Ok(Self::Off),
                "per_document" => Ok(Self::PerDocument),
                _ => Err(wrong()),
            },
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
    pub(super) extends: Flag,
}

/// `#[container(…)]` of a variant.
#[derive(Debug, Default, FromAttributes)]
#[darling(attributes(container), default)]
struct VariantSettings {
    extends: Flag,
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
    let settings = errors
        .handle(ContainerSettings::from_attributes(&input.attrs))
        .unwrap_or_default();
    let mut variants = Vec::new();
    for variant in &data.variants {
        let settings = errors
            .handle(VariantSettings::from_attributes(&variant.attrs))
            .unwrap_or_default();
        match &variant.fields {
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => variants.push(RawVariant {
                ident: variant.ident.clone(),
                ty: fields.unnamed[0].ty.clone(),
                extends: settings.extends,
            }),
            _ => errors.push(mistake(
                variant.ident.span(),
                format!(
                    "variant `{0}` must hold one document type, `{0}(Type)`",
                    variant.ident
                ),
            )),
        }
    }
    Some(RawContainer {
        ident: name.clone(),
        settings,
        variants,
    })
}
