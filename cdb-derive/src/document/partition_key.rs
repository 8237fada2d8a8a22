//! `#[derive(PartitionKeyFields)]`: a partition key as a struct, which document types contain.

use darling::error::Accumulator;
use proc_macro2::TokenStream;
use quote::quote;
use syn::DeriveInput;
use syn::spanned::Spanned;

use super::attr::{FieldSettings, StructSettings};
use super::expand::partition_key;
use super::model::{DocumentModel, FieldModel};
use super::value::Level;
use super::{check, fallback};
use crate::input::diag::{Mistakes, mistake};
use crate::input::serde_attr::{SerdeField, SerdeStruct};
use crate::input::settings::{CratePath, Setting, settings};
use crate::output::derived::{Derived, named_fields};
use crate::output::private::import;

/// A partition key: a document of nothing else.
#[derive(Debug)]
pub(crate) struct PartitionKeyModel(DocumentModel);

settings! {
    /// `#[document(…)]` of the struct.
    struct KeySettings = "document" {
        "crate" => krate: Setting<CratePath>,
    }
    foreign: FieldSettings::WORDS, "a document type, not of its partition key"
}

impl Derived for PartitionKeyModel {
    fn read(input: &DeriveInput, errors: &mut Accumulator) -> Option<Self> {
        let text = "`PartitionKeyFields` needs a struct with named fields";
        let named = named_fields(input, text, errors)?;
        if let Some(parameter) = input.generics.params.first() {
            let text = format!(
                "`{}` is generic; implement `PartitionKeyFields` by hand",
                input.ident
            );
            errors.push(mistake(parameter.span(), text));
        }
        let settings = StructSettings {
            krate: KeySettings::read(&input.attrs, errors).krate,
            ..StructSettings::default()
        };
        let serde = SerdeStruct::read(&input.attrs, errors);
        let fields = named.iter().filter_map(|field| {
            KeySettings::read(&field.attrs, errors);
            let own = SerdeField::read(&field.attrs, errors);
            FieldModel::new(field, FieldSettings::default(), own, &serde)
        });
        let fields = fields.collect();
        let mut model = DocumentModel::new(input, settings, &serde, fields);
        let (name, levels) = (&input.ident, model.fields.len());
        errors.unless((1..=3).contains(&levels), name.span(), || {
            format!("a partition key has 1 to 3 fields, the outermost first; `{name}` has {levels}")
        });
        for (at, field) in model.fields.iter_mut().enumerate() {
            field.partition_key = Some((Level::Numbered(at + 1), field.ident.span()));
        }
        check::partition_key(&model, errors);
        Some(Self(model))
    }

    fn expand(&self) -> TokenStream {
        let (model, import) = (&self.0, import(&self.0.settings.krate.path()));
        let (name, fields) = (&model.ident, model.partition_key());
        let paths = fields.iter().map(|field| field.pointer());
        let partition_key = super::expand::body(model, partition_key(&fields));
        quote! {
            const _: () = {
                #import
                #[automatically_derived]
                impl __model::PartitionKeyFields for #name {
                    const PATHS: &'static [&'static __model::str] = &[#(#paths),*];

                    fn to_partition_key(&self) -> __model::PartitionKey {
                        #partition_key
                    }
                }

                #[automatically_derived]
                impl __model::From<&#name> for __model::PartitionKey {
                    fn from(fields: &#name) -> Self {
                        __model::PartitionKeyFields::to_partition_key(fields)
                    }
                }

                #[automatically_derived]
                impl __model::From<#name> for __model::PartitionKey {
                    fn from(fields: #name) -> Self {
                        __model::PartitionKeyFields::to_partition_key(&fields)
                    }
                }
            };
        }
    }

    fn stubs(self) -> TokenStream {
        Self(fallback::permissive(self.0)).expand()
    }
}
