//! The stages of `#[derive(Container)]`: read, check, build, generate.

use std::collections::HashSet;

use darling::error::Accumulator;
use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Fields};

use super::attr::{ContainerSettings, VariantSettings};
use super::model::{ContainerModel, Variant};
use super::{check, expand};
use crate::input::diag::mistake;
use crate::output::derived::Derived;

impl Derived for ContainerModel {
    fn read(input: &DeriveInput, errors: &mut Accumulator) -> Option<Self> {
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
        let model = ContainerModel {
            ident: name.clone(),
            settings,
            has_unreadable_variants: variants.len() < data.variants.len(),
            is_stub: false,
            variants,
        };
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

impl Variant {
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
