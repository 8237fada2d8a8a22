//! The attributes of an enum as written, every value with its span.

use darling::FromMeta;
use darling::error::Accumulator;
use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Expr, Fields, Lit, Meta};

use super::model::{ContainerModel, Variant};
use crate::diag::mistake;
use crate::settings::{CratePath, Mark, Setting, Text, settings, text, ungrouped};

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

/// Reads the input of the derive. Returns `None` if it is not an enum.
pub(super) fn read(input: &DeriveInput, errors: &mut Accumulator) -> Option<ContainerModel> {
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
    let variants = data.variants.iter();
    let variants: Vec<_> = variants
        .filter_map(|variant| Variant::read(variant, errors))
        .collect();
    Some(ContainerModel {
        ident: name.clone(),
        settings,
        has_unreadable_variants: variants.len() < data.variants.len(),
        is_stub: false,
        variants,
    })
}

impl Variant {
    /// Whether the type names the container, and may therefore take the partition key from it.
    pub(super) fn names(&self, container: &Ident) -> bool {
        fn any(tokens: TokenStream, container: &Ident) -> bool {
            tokens.into_iter().any(|token| match token {
                TokenTree::Group(group) => any(group.stream(), container),
                TokenTree::Ident(ident) => ident == *container || ident == "Self",
                TokenTree::Punct(_) | TokenTree::Literal(_) => false,
            })
        }
        any(self.ty.to_token_stream(), container)
    }

    fn read(variant: &syn::Variant, errors: &mut Accumulator) -> Option<Self> {
        let ident = &variant.ident;
        let settings = VariantSettings::read(&variant.attrs, errors);
        match &variant.fields {
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => Some(Self {
                ident: ident.clone(),
                ty: fields.unnamed[0].ty.clone(),
                settings,
            }),
            _ => {
                let text =
                    format!("variant `{ident}` must contain one document type, `{ident}(Type)`");
                errors.push(mistake(ident.span(), text));
                None
            }
        }
    }
}
