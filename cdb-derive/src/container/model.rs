//! The model of a container.

use proc_macro2::Ident;
use quote::ToTokens;
use syn::Type;

use super::attr::{ContainerSettings, VariantSettings};
use crate::output::derived::names;

/// A container.
#[derive(Debug)]
pub(crate) struct ContainerModel {
    pub(super) ident: Ident,
    pub(super) settings: ContainerSettings,
    pub(super) variants: Vec<Variant>,
    /// Whether a variant is invalid and has been reported.
    pub(super) has_unreadable_variants: bool,
    /// Whether the enum has mistakes, so that its code compiles and never runs.
    pub(super) is_stub: bool,
}

/// A variant and its type.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) ident: Ident,
    pub(super) ty: Type,
    pub(super) settings: VariantSettings,
}

impl ContainerModel {
    /// Returns the variant of the container that this one extends.
    pub(super) fn base(&self) -> Option<&Variant> {
        let mut variants = self.variants.iter();
        variants.find(|variant| variant.settings.extends.is_given())
    }

    /// Returns the variants of the container's own types.
    pub(super) fn documents(&self) -> impl Iterator<Item = &Variant> {
        let variants = self.variants.iter();
        variants.filter(|variant| !variant.settings.extends.is_given())
    }
}

impl Variant {
    /// Whether the type names the container, and may therefore take the partition key from it.
    pub(super) fn names(&self, container: &Ident) -> bool {
        let is_container = |ident: &Ident| ident == container || ident == "Self";
        names(self.ty.to_token_stream(), &is_container)
    }
}
