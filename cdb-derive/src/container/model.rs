//! The input that the expansion reads.

use darling::error::Accumulator;
use proc_macro2::Ident;
use syn::Type;

use super::attr::{RawContainer, TtlSetting};
use crate::diag::{Mistakes, mistake};

/// A container.
#[derive(Debug)]
pub(super) struct ContainerModel {
    pub(super) ident: Ident,
    /// Where `cdb_model` is.
    pub(super) krate: syn::Path,
    /// Empty when it is inherited.
    pub(super) partition_key: Vec<String>,
    /// `None` when it is inherited.
    pub(super) discriminator: Option<String>,
    pub(super) default_ttl: Option<TtlSetting>,
    pub(super) base: Option<Variant>,
    pub(super) documents: Vec<Variant>,
}

/// A variant and what it holds.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) ident: Ident,
    pub(super) ty: Type,
}

/// Builds the model; what is missing is said.
pub(super) fn build(raw: RawContainer, errors: &mut Accumulator) -> Option<ContainerModel> {
    let name = raw.ident;
    let settings = raw.settings;
    let mut base = None;
    let mut documents = Vec::new();
    for variant in raw.variants {
        let extends = variant.extends;
        let variant = Variant {
            ident: variant.ident,
            ty: variant.ty,
        };
        if !extends.is_present() {
            documents.push(variant);
        } else if base.is_none() {
            base = Some(variant);
        } else {
            errors.push(mistake(
                extends.span(),
                format!("`{name}` extends two containers; let one of them extend the other"),
            ));
        }
    }
    if base.is_some() {
        let inherited = [
            (
                "partition_key",
                settings.partition_key.as_ref().map(|value| value.span()),
            ),
            (
                "discriminator",
                settings.discriminator.as_ref().map(|value| value.span()),
            ),
        ];
        for (word, span) in inherited {
            if let Some(span) = span {
                errors.push(mistake(
                    span,
                    format!(
                        "`{word}` comes from the container that `{name}` extends; remove it here"
                    ),
                ));
            }
        }
    } else if settings.partition_key.is_none() {
        errors.push(mistake(
            name.span(),
            format!("`{name}` has no partition key; add `#[container(partition_key = \"/…\")]`"),
        ));
    }
    errors.unless(base.is_some() || !documents.is_empty(), name.span(), || {
        format!("`{name}` has no document types; add a variant for each")
    });
    let mut partition_key = Vec::new();
    if let Some(paths) = &settings.partition_key {
        for path in paths.split(',').map(str::trim) {
            errors.unless(path.starts_with('/') && path.len() > 1, paths.span(), || {
                format!("`{path}` is no path; a partition key path starts with `/`, for example `/instanceId`")
            });
            partition_key.push(path.to_owned());
        }
        errors.unless(partition_key.len() <= 3, paths.span(), || {
            "a partition key has at most three levels".to_owned()
        });
    }
    Some(ContainerModel {
        krate: settings
            .krate
            .unwrap_or_else(|| syn::parse_quote!(::cdb_model)),
        partition_key,
        discriminator: base.is_none().then(|| {
            settings
                .discriminator
                .map_or_else(|| "type".to_owned(), |value| (*value).clone())
        }),
        default_ttl: settings.default_ttl,
        base,
        documents,
        ident: name,
    })
}
