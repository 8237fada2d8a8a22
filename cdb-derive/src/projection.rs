//! `#[derive(Projection)]`.

use darling::FromMeta;
use darling::error::Accumulator;
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, Fields, Meta, Path, Type};

use crate::derived::Derived;
use crate::diag::{Mistakes, mistake};
use crate::private::{import, private};
use crate::respan::located_at;
use crate::serde_attr::{SerdeField, SerdeStruct};
use crate::settings::{self, CratePath, Setting, Vocabulary};

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

#[derive(Clone, Copy)]
enum OfStruct {
    Of,
    Crate,
}

const OF_STRUCT: &[(&str, OfStruct)] = &[("of", OfStruct::Of), ("crate", OfStruct::Crate)];
const OF_FIELD: &[(&str, ())] = &[("path", ())];

/// `of = Order`, `path = ADDRESS_CITY`.
#[derive(Debug)]
struct PathSetting(Path);

impl FromMeta for PathSetting {
    fn from_meta(meta: &Meta) -> darling::Result<Self> {
        const FORM: &str = "write a name, for example `of = Order` or `path = ADDRESS_CITY`";
        settings::path(meta, FORM).map(Self)
    }
}

impl Derived for ProjectionModel {
    fn read(input: &syn::DeriveInput, errors: &mut Accumulator) -> Option<Self> {
        let named = match &input.data {
            Data::Struct(data) => match &data.fields {
                Fields::Named(fields) => Some(&fields.named),
                _ => None,
            },
            _ => None,
        };
        let Some(named) = named else {
            errors.push(mistake(
                input.ident.span(),
                "a projection is a struct with named fields",
            ));
            return None;
        };
        if let Some(generic) = input.generics.params.first() {
            errors.push(mistake(
                generic.span(),
                "a projection has no generic parameters",
            ));
            return None;
        }
        let (document, krate) = struct_settings(input, errors);
        let serde = SerdeStruct::read(&input.attrs, errors);
        let fields = named.iter();
        let fields = fields.filter_map(|field| ProjectedField::read(field, &serde, errors));
        Some(Self {
            ident: input.ident.clone(),
            krate,
            document,
            fields: fields.collect(),
        })
    }

    fn expand(&self) -> TokenStream {
        let (ident, import, private) = (&self.ident, import(&self.krate), private());
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
                impl #private::Projection for #ident {
                    type Document = #document;
                    const NAME: &'static #private::str = #name;
                    const FIELDS: &'static [#private::ProjectedField] = &[#(#fields),*];
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

/// Reads `#[projection(…)]` of the struct: the document and the path of `cdb_model`.
fn struct_settings(input: &syn::DeriveInput, errors: &mut Accumulator) -> (Option<Path>, Path) {
    let vocabulary = Vocabulary {
        attribute: "projection",
        settings: OF_STRUCT,
        foreign: OF_FIELD,
        elsewhere: "a field, not of the struct",
    };
    let mut of = Setting::<PathSetting>::default();
    let mut krate = Setting::<CratePath>::default();
    let readable = vocabulary.read(
        &input.attrs,
        errors,
        |setting, word, errors| match setting {
            OfStruct::Of => of.take(word, errors),
            OfStruct::Crate => krate.take(word, errors),
        },
    );
    if readable && !of.is_given() {
        errors.push(mistake(
            input.ident.span(),
            "the document type is missing: add `#[projection(of = …)]`",
        ));
    }
    (of.get().map(|of| of.0.clone()), krate.path())
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
        let vocabulary = Vocabulary {
            attribute: "projection",
            settings: OF_FIELD,
            foreign: OF_STRUCT,
            elsewhere: "the struct, not of a field",
        };
        let mut path = Setting::<PathSetting>::default();
        vocabulary.read(&field.attrs, errors, |(), word, errors| {
            path.take(word, errors);
        });
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
        let given = path.get().and_then(|path| constant(&path.0, errors));
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
