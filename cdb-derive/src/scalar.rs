//! `#[derive(Scalar)]`: enums of unit variants and newtypes, whose stored form serde determines.

use std::collections::HashMap;

use darling::error::Accumulator;
use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DataEnum, DeriveInput, Fields, Path, Type};

use crate::input::diag::{Mistakes, mistake};
use crate::input::rename::RenameRule;
use crate::input::serde_attr::{ScalarPlace, scalar_form};
use crate::input::settings::{CratePath, Setting, settings};
use crate::output::derived::Derived;
use crate::output::private::import;
use crate::output::respan::located_at;

/// An enum or a newtype.
#[derive(Debug)]
pub(crate) struct ScalarModel {
    ident: Ident,
    /// The path of `cdb_model`.
    krate: Path,
    /// The content of a newtype; `None` for an enum.
    content: Option<Type>,
}

settings! {
    /// `#[scalar(…)]`.
    struct ScalarSettings = "scalar" {
        "crate" => krate: Setting<CratePath>,
    }
    foreign: &[], ""
}

impl Derived for ScalarModel {
    fn read(input: &DeriveInput, errors: &mut Accumulator) -> Option<Self> {
        let name = &input.ident;
        if let Some(parameter) = input.generics.params.first() {
            let text = format!("`{name}` is generic; implement `Scalar` by hand");
            errors.push(mistake(parameter.span(), text));
        }
        let rule = scalar_form(&input.attrs, ScalarPlace::Type, errors).rename_all;
        let content = match &input.data {
            Data::Enum(data) => {
                check_variants(data, rule, errors);
                None
            }
            Data::Struct(data)
                if matches!(data.fields, Fields::Unnamed(_)) && data.fields.len() == 1 =>
            {
                let field = data.fields.iter().next()?;
                scalar_form(&field.attrs, ScalarPlace::Content, errors);
                Some(field.ty.clone())
            }
            _ => {
                let text = "a scalar is an enum of unit variants or a struct around one value, `struct Sku(String);`";
                errors.push(mistake(name.span(), text));
                return None;
            }
        };
        Some(Self {
            ident: name.clone(),
            krate: ScalarSettings::read(&input.attrs, errors).krate.path(),
            content,
        })
    }

    fn expand(&self) -> TokenStream {
        let (name, import) = (&self.ident, import(&self.krate));
        let content = self.content.as_ref().map(|ty| forwarded(name, ty));
        quote! {
            const _: () = {
                #import
                #[automatically_derived]
                impl __model::Scalar for #name {}
                #content
            };
        }
    }

    fn stubs(mut self) -> TokenStream {
        self.content = None;
        self.expand()
    }
}

/// Checks that each variant is stored as text, and as another one than the variants before.
fn check_variants(data: &DataEnum, rule: RenameRule, errors: &mut Accumulator) {
    let mut seen: HashMap<String, &Ident> = HashMap::new();
    for variant in &data.variants {
        let serde = scalar_form(&variant.attrs, ScalarPlace::Variant, errors);
        let is_unit = matches!(variant.fields, Fields::Unit);
        errors.unless(is_unit, variant.fields.span(), || {
            "a variant with fields is stored as an object, which filters cannot compare; index paths inside it".to_owned()
        });
        if serde.is_skipped {
            continue;
        }
        let ident = &variant.ident;
        let stored = serde.rename;
        let stored = stored.unwrap_or_else(|| rule.apply_to_variant(&ident.unraw().to_string()));
        if let Some(first) = seen.get(&stored) {
            let text = format!("`{first}` and `{ident}` are both stored as `{stored}`; rename one");
            errors.push(mistake(ident.span(), text));
        } else {
            seen.insert(stored, ident);
        }
    }
}

/// Forwards the traits that the content has. The lifetime in the bounds makes the compiler accept
/// those that do not hold: the newtype lacks the trait then.
fn forwarded(name: &Ident, content: &Type) -> TokenStream {
    let check = quote!(const _: () = __model::is_scalar::<#content>(););
    let check = located_at(content.span(), check);
    quote! {
        #check

        #[automatically_derived]
        impl __model::Ordered for #name
        where
            for<'__a> #content: __model::Ordered,
        {
            type Value = Self;
            const MAY_BE_NULL: __model::bool = <#content as __model::Ordered>::MAY_BE_NULL;
        }

        #[automatically_derived]
        impl __model::IdPart for #name
        where
            for<'__a> #content: __model::IdPart,
        {
            fn to_id_part(&self) -> __model::String {
                __model::IdPart::to_id_part(&self.0)
            }

            fn from_id_part(text: &__model::str) -> __model::Result<Self, __model::String> {
                __model::Result::map(__model::IdPart::from_id_part(text), Self)
            }
        }

        #[automatically_derived]
        impl __model::PartitionKeyPart for #name
        where
            for<'__a> #content: __model::PartitionKeyPart,
        {
            fn to_partition_key_value(&self) -> __model::PartitionKeyValue {
                __model::PartitionKeyPart::to_partition_key_value(&self.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::derived::mistakes;

    #[test]
    fn two_variants_have_two_stored_names() {
        for (input, expected) in [
            (
                quote!(
                    enum State {
                        #[serde(rename = "x")]
                        A,
                        #[serde(rename(serialize = "x", deserialize = "x"))]
                        B,
                        #[serde(rename = "B")]
                        C,
                    }
                ),
                "`A` and `B` are both stored as `x`; rename one\n",
            ),
            (
                quote!(
                    #[serde(rename_all = "lowercase")]
                    enum State {
                        InWork,
                        Inwork,
                        r#Done,
                    }
                ),
                "`InWork` and `Inwork` are both stored as `inwork`; rename one\n",
            ),
            (
                quote!(
                    enum State {
                        A,
                        #[serde(skip, rename = "A")]
                        Former,
                    }
                ),
                "",
            ),
        ] {
            assert_eq!(mistakes::<ScalarModel>(input), expected);
        }
    }
}
