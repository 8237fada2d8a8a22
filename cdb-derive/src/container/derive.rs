//! The stages of `#[derive(Container)]`: read, check, build, generate.

use std::collections::HashSet;

use darling::error::Accumulator;
use proc_macro2::TokenStream;
use quote::ToTokens;

use super::model::ContainerModel;
use super::{attr, check, expand};
use crate::derived::Derived;

impl Derived for ContainerModel {
    fn read(input: &syn::DeriveInput, errors: &mut Accumulator) -> Option<Self> {
        let model = attr::read(input, errors)?;
        check::all(&model, errors);
        Some(model)
    }

    fn expand(&self) -> TokenStream {
        expand::container(self)
    }

    fn stubs(mut self) -> TokenStream {
        // A type in two variants has been reported; rustc must not report it again.
        let mut seen = HashSet::new();
        self.variants
            .retain(|variant| seen.insert(variant.ty.to_token_stream().to_string()));
        self.is_stub = true;
        expand::container(&self)
    }
}
