//! `#[derive(Projection)]`.

use std::collections::HashMap;

use darling::FromMeta;
use darling::error::Accumulator;
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Meta, Path, Type};

use crate::input::diag::{Mistakes, mistake};
use crate::input::serde_attr::{SerdeField, SerdeStruct};
use crate::input::settings::{self, CratePath, Setting, settings};
use crate::output::derived::{Derived, named_fields};
use crate::output::private::import;
use crate::output::respan::located_at;

/// A projection.
#[derive(Debug)]
pub(crate) struct ProjectionModel {
    ident: Ident,
    /// The path of `cdb_model`.
    krate: Path,
    /// The document type; `None` if it is missing or invalid.
    document: Option<Path>,
    fields: Vec<ProjectedField>,
}

#[derive(Debug)]
struct ProjectedField {
    ident: Ident,
    ty: Type,
    /// The name that serde reads.
    name: String,
    /// The constant of the path in the document.
    constant: Ident,
}

settings! {
    /// `#[projection(…)]` of the struct.
    struct StructSettings = "projection" {
        "of" => of: Setting<PathSetting>,
        "crate" => krate: Setting<CratePath>,
    }
    foreign: FieldSettings::WORDS, "a field, not of the struct"
}

settings! {
    /// `#[projection(…)]` of a field.
    struct FieldSettings = "projection" {
        "path" => path: Setting<PathSetting>,
    }
    foreign: StructSettings::WORDS, "the struct, not of a field"
}

/// `of = Order`, `path = ADDRESS_CITY`.
#[derive(Debug)]
pub(super) struct PathSetting(Path);

impl FromMeta for PathSetting {
    fn from_meta(meta: &Meta) -> darling::Result<Self> {
        const FORM: &str = "write a name, for example `of = Order` or `path = ADDRESS_CITY`";
        settings::path(meta, FORM).map(Self)
    }
}

impl Derived for ProjectionModel {
    fn read(input: &syn::DeriveInput, errors: &mut Accumulator) -> Option<Self> {
        let text = "a projection is a struct with named fields";
        let named = named_fields(input, text, errors)?;
        if let Some(generic) = input.generics.params.first() {
            errors.push(mistake(
                generic.span(),
                "a projection has no generic parameters",
            ));
            return None;
        }
        let settings = StructSettings::read(&input.attrs, errors);
        let is_missing = !settings.of.is_given() && !settings.unreadable;
        errors.unless(!is_missing, input.ident.span(), || {
            "the document type is missing: add `#[projection(of = …)]`".to_owned()
        });
        let serde = SerdeStruct::read(&input.attrs, errors);
        let fields = named.iter();
        let fields = fields.filter_map(|field| ProjectedField::read(field, &serde, errors));
        let fields: Vec<_> = fields.collect();
        names_differ(&fields, errors);
        Some(Self {
            ident: input.ident.clone(),
            krate: settings.krate.path(),
            document: settings.of.get().map(|of| of.0.clone()),
            fields,
        })
    }

    fn expand(&self) -> TokenStream {
        let (ident, import) = (&self.ident, import(&self.krate));
        let (document, name) = (&self.document, ident.unraw().to_string());
        let fields = self.fields.iter().map(|field| {
            let (ty, name, constant) = (&field.ty, &field.name, &field.constant);
            let path = located_at(field.ident.span(), quote!(<#document>::#constant));
            let check = located_at(ty.span(), quote!(projected::<#ty>));
            quote!(#path.#check(#name))
        });
        quote! {
            const _: () = {
                #import
                #[automatically_derived]
                impl __model::Projection for #ident {
                    type Document = #document;
                    const NAME: &'static __model::str = #name;
                    const FIELDS: &'static [__model::ProjectedField] = &[#(#fields),*];
                }
            };
        }
    }

    fn stubs(mut self) -> TokenStream {
        self.fields.clear();
        if self.document.is_some() {
            self.expand()
        } else {
            TokenStream::new()
        }
    }
}

/// Checks that no two fields are read from one property: serde would find the second one missing.
fn names_differ(fields: &[ProjectedField], errors: &mut Accumulator) {
    let mut seen: HashMap<&str, &Ident> = HashMap::new();
    for ProjectedField { ident, name, .. } in fields {
        if let Some(first) = seen.get(&**name) {
            let text = format!("`{first}` and `{ident}` are both read as `{name}`; rename one");
            errors.push(mistake(ident.span(), text));
        } else {
            seen.insert(name, ident);
        }
    }
}

/// Returns the name of a constant of the document, which `of` names.
fn constant(path: &Path, errors: &mut Accumulator) -> Option<Ident> {
    let name = path.get_ident();
    errors.unless(name.is_some(), path.span(), || {
        "`path` takes the name of the constant only, for example `path = ADDRESS_CITY`".to_owned()
    });
    name.cloned()
}

impl ProjectedField {
    fn read(field: &syn::Field, serde: &SerdeStruct, errors: &mut Accumulator) -> Option<Self> {
        let ident = field.ident.clone()?;
        let settings = FieldSettings::read(&field.attrs, errors);
        let attributes = SerdeField::read(&field.attrs, errors);
        if let Some((word, span)) = &attributes.skip {
            errors.push(mistake(
                *span,
                format!("a projection reads every field; remove `{word}`"),
            ));
        }
        if let Some(span) = attributes.flatten {
            errors.push(mistake(
                span,
                "`flatten` hides which paths are read; spell the fields out",
            ));
        }
        let name = ident.unraw().to_string();
        let given = settings.path.get();
        let given = given.and_then(|path| constant(&path.0, errors));
        Some(Self {
            constant: given
                .unwrap_or_else(|| format_ident!("{}", name.to_uppercase(), span = ident.span())),
            name: attributes
                .rename
                .unwrap_or_else(|| serde.rename_all.apply_to_field(&name)),
            ty: field.ty.clone(),
            ident,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::derived::mistakes;

    #[test]
    fn two_fields_are_read_from_two_properties() {
        let input = quote! {
            #[projection(of = Order)]
            struct Twice {
                number: u64,
                #[serde(rename = "number")]
                #[projection(path = COUNT)]
                count: u64,
            }
        };
        let expected = "`number` and `count` are both read as `number`; rename one\n";
        assert_eq!(mistakes::<ProjectionModel>(input), expected);
    }
}
