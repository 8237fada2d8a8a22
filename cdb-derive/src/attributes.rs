//! `#[derive(SearchAttributes)]`: a struct whose fields are the search attributes of an
//! orchestration.

use std::collections::HashMap;

use darling::error::Accumulator;
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{DeriveInput, Type, Visibility};

use crate::input::diag::{Mistakes, mistake};
use crate::input::settings::dependency;
use crate::output::derived::{Derived, named_fields};
use crate::output::respan::located_at;

/// The limit of the provider, which a derive cannot use.
const MAX_ATTRIBUTES: usize = 16;

/// A struct of attributes.
#[derive(Debug)]
pub(crate) struct AttributesModel {
    ident: Ident,
    fields: Vec<AttributeField>,
}

#[derive(Debug)]
struct AttributeField {
    ident: Ident,
    vis: Visibility,
    ty: Type,
}

impl Derived for AttributesModel {
    fn read(input: &DeriveInput, errors: &mut Accumulator) -> Option<Self> {
        let name = &input.ident;
        let text = "`SearchAttributes` needs a struct with named fields";
        let fields = named_fields(input, text, errors)?;
        if let Some(parameter) = input.generics.params.first() {
            let text = format!("`{name}` is generic; write one struct per orchestration");
            errors.push(mistake(parameter.span(), text));
        }
        let fields = fields.iter().filter_map(|field| {
            Some(AttributeField {
                ident: field.ident.clone()?,
                vis: field.vis.clone(),
                ty: field.ty.clone(),
            })
        });
        let fields: Vec<_> = fields.collect();
        if let Some(extra) = fields.get(MAX_ATTRIBUTES) {
            errors.unless(false, extra.ident.span(), || {
                let count = fields.len();
                format!("`{name}` has {count} attributes; an orchestration has at most {MAX_ATTRIBUTES}, because each is indexed with every write of the instance")
            });
        }
        constants_differ(&fields, errors);
        Some(Self {
            ident: name.clone(),
            fields,
        })
    }

    fn expand(&self) -> TokenStream {
        let name = &self.ident;
        let provider = dependency("cdb-provider").unwrap_or_else(|| format_ident!("cdb_provider"));
        let constants = self.fields.iter().map(AttributeField::constant);
        let codecs = self.fields.iter().map(AttributeField::codec);
        let writes = self.fields.iter().map(|field| {
            let (ident, stored, codec) = (&field.ident, field.name(), field.codec_name());
            quote!((#stored, (#codec.write)(&self.#ident)))
        });
        let reads = self.fields.iter().map(|field| {
            let (ident, stored, codec) = (&field.ident, field.name(), field.codec_name());
            quote!(#ident: __provider::read(&#codec, values, #stored)?)
        });
        quote! {
            const _: () = {
                use ::#provider::__private as __provider;

                #(#codecs)*

                #[automatically_derived]
                #[allow(dead_code, reason = "not every attribute is used")]
                impl #name {
                    #(#constants)*
                }

                #[automatically_derived]
                impl __provider::SearchAttributes for #name {
                    fn to_values(&self) -> __provider::Values {
                        __provider::vec![#(#writes),*]
                    }

                    fn from_values(
                        values: &__provider::Attributes,
                    ) -> __provider::Result<Self, __provider::AttributesError> {
                        __provider::Result::Ok(Self { #(#reads),* })
                    }
                }
            };
        }
    }

    fn stubs(self) -> TokenStream {
        self.expand()
    }
}

/// Checks that the constants of the paths have different names.
fn constants_differ(fields: &[AttributeField], errors: &mut Accumulator) {
    let mut seen = HashMap::new();
    for field in fields {
        let (name, constant) = (field.name(), field.name().to_uppercase());
        if let Some(first) = seen.get(&constant) {
            let text = format!(
                "`{first}` and `{name}` would both be the constant `{constant}`; rename one"
            );
            errors.push(mistake(field.ident.span(), text));
        } else {
            seen.insert(constant, name);
        }
    }
}

impl AttributeField {
    /// Returns the name of the stored attribute.
    fn name(&self) -> String {
        self.ident.unraw().to_string()
    }

    fn codec_name(&self) -> Ident {
        format_ident!("__CODEC_{}", self.name().to_uppercase())
    }

    /// Returns the path of the attribute in the instance document.
    fn constant(&self) -> TokenStream {
        let (vis, ty, name) = (&self.vis, &self.ty, self.name());
        let constant = format_ident!("{}", name.to_uppercase(), span = self.ident.span());
        let doc = format!("The search attribute `{name}`, for filters and sorts of instances.");
        let pointer = format!("/attributes/{name}");
        quote! {
            #[doc = #doc]
            #vis const #constant: __provider::Path<
                __provider::Instance,
                #ty,
                __provider::Indexed,
                __provider::Fixed,
            > = __provider::Path::new(#pointer);
        }
    }

    /// Returns the conversions of the type, at the type: a wrong one is one error there.
    fn codec(&self) -> TokenStream {
        let (name, ty) = (self.codec_name(), &self.ty);
        let codec = quote!(const #name: __provider::Codec<#ty> = __provider::codec::<#ty>(););
        located_at(ty.span(), codec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::derived::mistakes;

    #[test]
    fn mistakes_are_reported() {
        let fields = (0..17).map(|n| format_ident!("field_{n}"));
        for (input, expected) in [
            (
                quote!(
                    struct Search {
                        customer: String,
                        r#type: Option<bool>,
                    }
                ),
                "",
            ),
            (
                quote!(
                    enum Search {
                        Customer,
                    }
                ),
                "`SearchAttributes` needs a struct with named fields\n",
            ),
            (
                quote!(
                    struct Search<T> {
                        customer: T,
                    }
                ),
                "`Search` is generic; write one struct per orchestration\n",
            ),
            (
                quote!(
                    struct Search {
                        total: f64,
                        Total: f64,
                    }
                ),
                "`total` and `Total` would both be the constant `TOTAL`; rename one\n",
            ),
            (
                quote!(struct Search { #(#fields: bool),* }),
                "`Search` has 17 attributes; an orchestration has at most 16, because each is indexed with every write of the instance\n",
            ),
        ] {
            assert_eq!(mistakes::<AttributesModel>(input), expected);
        }
    }
}
