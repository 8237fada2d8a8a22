//! The stages of `#[derive(Container)]`: read, check, build, generate.

use darling::error::Accumulator;
use proc_macro2::TokenStream;

use super::model::ContainerModel;
use super::{attr, check, expand, fallback, model};
use crate::derived::Derived;

impl Derived for ContainerModel {
    fn read(input: &syn::DeriveInput, errors: &mut Accumulator) -> Option<Self> {
        let raw = attr::read(input, errors)?;
        check::all(&raw, errors);
        Some(model::build(raw))
    }

    fn expand(&self) -> TokenStream {
        expand::container(self)
    }

    fn stubs(self) -> TokenStream {
        fallback::stubs(self)
    }
}
