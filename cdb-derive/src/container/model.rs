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
    /// The given paths; empty if they are inherited or those of a type.
    pub(super) partition_key: Vec<String>,
    /// The type from which the paths come unless they are given.
    pub(super) key_type: Option<Type>,
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
    let mut types = raw.variants.iter();
    let key_type = types.find(|variant| !variant.names(&raw.ident));
    let key_type = key_type.map(|variant| variant.ty.clone());
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
        key_type,
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
