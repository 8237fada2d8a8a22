//! The values of the settings: their grammar, with the span of every name. Module `check` checks
//! that the names exist.

use std::num::NonZeroU32;

use darling::{Error, FromMeta};
use proc_macro2::{Ident, Span};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Field, LitInt, Meta, Path, Token, Type, WherePredicate};

use crate::input::diag::mistake;
use crate::input::settings::{list, text};

/// `bound = "T: Clone"`, as serde's `bound`.
#[derive(Clone, Debug)]
pub(super) struct Bound(pub(super) Punctuated<WherePredicate, Token![,]>);

impl FromMeta for Bound {
    fn from_meta(meta: &Meta) -> Result<Self, Error> {
        let bound = text(meta, "T: Clone")?;
        let parsed = Punctuated::parse_terminated.parse_str(&bound);
        let form =
            "`bound` takes the predicates of a `where` clause, for example `bound = \"T: Clone\"`";
        parsed.map(Self).map_err(|_| mistake(meta.span(), form))
    }
}

/// `id_part(kind: String)`: a method whose value is part of the id.
#[derive(Clone, Debug)]
pub(super) struct IdPartSetting(pub(super) Field);

impl FromMeta for IdPartSetting {
    fn from_meta(meta: &Meta) -> Result<Self, Error> {
        let form = "write `id_part(kind: String)` with the name and the type of a method";
        let part = list(meta, form, Field::parse_named);
        part.map(Self)
            .map_err(|_| mistake(meta.path().span(), form))
    }
}

/// `version = 2`.
#[derive(Clone, Copy, Debug)]
pub(super) struct VersionSetting(pub(super) u32);

impl FromMeta for VersionSetting {
    fn from_meta(meta: &Meta) -> Result<Self, Error> {
        let Meta::NameValue(setting) = meta else {
            return Err(mistake(meta.path().span(), "write `version = 2`"));
        };
        let number = NonZeroU32::from_expr(&setting.value);
        let number = number.map(|number| Self(number.get()));
        number.map_err(|_| mistake(setting.value.span(), "a version is a number from 1"))
    }
}

/// `upcast(v1_to_v2, v2_to_v3)`: the functions that upgrade a document, oldest version first.
#[derive(Clone, Debug)]
pub(super) struct UpcastSetting(pub(super) Vec<Path>);

impl FromMeta for UpcastSetting {
    fn from_meta(meta: &Meta) -> Result<Self, Error> {
        let form = "write `upcast(v1_to_v2)` with the names of functions";
        let parser = Punctuated::<Path, Token![,]>::parse_terminated;
        Ok(Self(list(meta, form, parser)?.into_iter().collect()))
    }
}

/// The level of a field in the partition key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// `partition_key`
    Only,
    /// `partition_key(1)`
    Numbered(usize),
    /// The level is invalid and has been reported.
    Unreadable,
}

impl FromMeta for Level {
    fn from_meta(meta: &Meta) -> Result<Self, Error> {
        if let Meta::Path(_) = meta {
            return Ok(Self::Only);
        }
        let form = "write `partition_key`, or `partition_key(1)` for a level";
        let parser = |input: ParseStream<'_>| {
            let (span, level) = (input.span(), input.parse::<LitInt>());
            let level = level.and_then(|level| level.base10_parse());
            let level = level.ok().filter(|level| (1..=3).contains(level));
            level.ok_or_else(|| syn::Error::new(span, "a partition key has the levels 1, 2 and 3"))
        };
        list(meta, form, parser).map(Self::Numbered)
    }
}

/// `index`, `index(city: String, lines[].sku: String)`, or `index(*)` for all paths inside the field;
/// `paths(city: String)` for paths that are not indexed.
#[derive(Clone, Debug)]
pub(super) struct NestedPaths(pub(super) Vec<NestedPath>);

impl FromMeta for NestedPaths {
    fn from_meta(meta: &Meta) -> Result<Self, Error> {
        let is_index = meta.path().is_ident("index");
        if is_index && matches!(meta, Meta::Path(_)) {
            return Ok(Self(Vec::new()));
        }
        let form = if is_index {
            "write `index`, or `index(city: String)` for paths inside the field"
        } else {
            "write `paths(city: String)` for paths inside the field"
        };
        let parser = Punctuated::<NestedPath, Token![,]>::parse_terminated;
        let nested: Vec<_> = list(meta, form, parser)?.into_iter().collect();
        let text = "`paths` takes only paths with a single value";
        match nested.iter().find(|path| path.is_multiple()) {
            Some(path) if !is_index => Err(mistake(path.span, text)),
            _ => Ok(Self(nested)),
        }
    }
}

/// `lines[].sku: String`, or `*`.
#[derive(Clone, Debug)]
pub(super) struct NestedPath {
    /// Names and `[]`, in order; `*` alone.
    pub(super) parts: Vec<String>,
    pub(super) ty: Type,
    pub(super) span: Span,
}

impl NestedPath {
    /// Whether the path has no single value: it passes through an array, or is `*`.
    pub(super) fn is_multiple(&self) -> bool {
        self.parts.iter().any(|part| part == "[]" || part == "*")
    }
}

impl Parse for NestedPath {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let span = input.span();
        if input.parse::<Option<Token![*]>>()?.is_some() {
            return Ok(Self {
                parts: vec!["*".to_owned()],
                ty: syn::parse_quote!(()),
                span,
            });
        }
        let mut parts = Vec::new();
        loop {
            if input.peek(syn::token::Bracket) {
                let _inside;
                syn::bracketed!(_inside in input);
                parts.push("[]".to_owned());
            } else {
                let name: Ident = input.call(syn::ext::IdentExt::parse_any)?;
                parts.push(syn::ext::IdentExt::unraw(&name).to_string());
            }
            if input.peek(syn::token::Bracket) {
                continue;
            }
            if input.parse::<Option<Token![.]>>()?.is_none() {
                break;
            }
        }
        if input.parse::<Option<Token![:]>>()?.is_none() {
            return Err(syn::Error::new(
                span,
                "the path needs a type, for example `city: String`",
            ));
        }
        Ok(Self {
            parts,
            ty: input.parse()?,
            span,
        })
    }
}

/// `composite(BY_TOTAL = r#type, state, total desc)`.
#[derive(Clone, Debug)]
pub(super) struct CompositeSetting {
    pub(super) name: Ident,
    pub(super) paths: Vec<CompositePath>,
}

/// `total desc`.
#[derive(Clone, Debug)]
pub(super) struct CompositePath {
    pub(super) field: Ident,
    pub(super) descending: bool,
}

const COMPOSITE_FORM: &str =
    "a composite needs a name, for example `composite(BY_TOTAL = state, total desc)`";

impl FromMeta for CompositeSetting {
    fn from_meta(meta: &Meta) -> Result<Self, Error> {
        let parser = |input: ParseStream<'_>| {
            let name: Ident = input.call(syn::ext::IdentExt::parse_any)?;
            if input.parse::<Option<Token![=]>>()?.is_none() {
                return Err(syn::Error::new(name.span(), COMPOSITE_FORM));
            }
            let paths = Punctuated::<CompositePath, Token![,]>::parse_terminated(input)?;
            Ok(Self {
                name,
                paths: paths.into_iter().collect(),
            })
        };
        list(meta, COMPOSITE_FORM, parser)
    }
}

impl Parse for CompositePath {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let field = input.call(syn::ext::IdentExt::parse_any)?;
        let direction: Option<Ident> = input.parse()?;
        let descending = match &direction {
            None => false,
            Some(word) if word == "asc" => false,
            Some(word) if word == "desc" => true,
            Some(word) => {
                return Err(syn::Error::new(
                    word.span(),
                    "a direction is `asc` or `desc`",
                ));
            }
        };
        Ok(Self { field, descending })
    }
}

/// `unique(country, number)`.
#[derive(Clone, Debug)]
pub(super) struct UniqueSetting {
    pub(super) fields: Vec<Ident>,
    pub(super) span: Span,
}

impl FromMeta for UniqueSetting {
    fn from_meta(meta: &Meta) -> Result<Self, Error> {
        let form = "write `unique(field)` or `unique(field, other)`";
        let parser = Punctuated::<Ident, Token![,]>::parse_terminated;
        Ok(Self {
            fields: list(meta, form, parser)?.into_iter().collect(),
            span: meta.path().span(),
        })
    }
}
