//! The model of a container.

use proc_macro2::Ident;
use syn::Type;

use super::attr::{RawContainer, RawVariant, TtlSetting};

/// A container.
#[derive(Debug)]
pub(crate) struct ContainerModel {
    pub(super) ident: Ident,
    /// The path of `cdb_model`.
    pub(super) krate: syn::Path,
    /// Empty if it is inherited.
    pub(super) partition_key: Vec<String>,
    /// `None` if it is inherited.
    pub(super) discriminator: Option<String>,
    pub(super) default_ttl: Option<TtlSetting>,
    /// The container that this one extends.
    pub(super) base: Option<Variant>,
    pub(super) documents: Vec<Variant>,
}

/// A variant and its type.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) ident: Ident,
    pub(super) ty: Type,
}

impl ContainerModel {
    /// Returns all variants, the extended container first.
    pub(super) fn variants(&self) -> impl Iterator<Item = &Variant> {
        self.base.iter().chain(&self.documents)
    }
}

/// Builds the model.
pub(super) fn build(raw: RawContainer) -> ContainerModel {
    let settings = raw.settings;
    let is_base = |variant: &RawVariant| variant.settings.extends.is_given();
    let (base, documents): (Vec<_>, Vec<_>) = raw.variants.into_iter().partition(is_base);
    let base = base.into_iter().next().map(Variant::from);
    let discriminator = match &base {
        Some(_) => None,
        None => Some(
            settings
                .discriminator
                .get()
                .map_or_else(|| "type".to_owned(), |name| name.0.clone()),
        ),
    };
    ContainerModel {
        ident: raw.ident,
        krate: settings.krate.path(),
        partition_key: settings
            .partition_key
            .get()
            .map(|paths| paths.0.clone())
            .unwrap_or_default(),
        discriminator,
        default_ttl: settings.default_ttl.get().copied(),
        base,
        documents: documents.into_iter().map(Variant::from).collect(),
    }
}

impl From<RawVariant> for Variant {
    fn from(raw: RawVariant) -> Self {
        Self {
            ident: raw.ident,
            ty: raw.ty,
        }
    }
}
