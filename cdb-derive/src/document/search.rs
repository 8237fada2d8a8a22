//! The settings of vector and full-text search: their grammar.

use darling::{Error, FromMeta};
use proc_macro2::{Ident, Span};
use syn::parse::ParseStream;
use syn::spanned::Spanned;
use syn::{LitInt, LitStr, Meta, Token};

use crate::input::diag::{mistake, suggestion};
use crate::input::settings::list;

/// `vector(dimensions = 1536, distance = cosine, index = disk_ann)`.
#[derive(Clone, Debug)]
pub(super) struct VectorSetting {
    pub(super) dimensions: u32,
    pub(super) span: Span,
    /// The variant of the model.
    pub(super) distance: &'static str,
    /// The variant of the model, or [`NO_INDEX`].
    pub(super) index: &'static str,
}

/// The words of `distance`, with the variants of the model.
const DISTANCES: [Choice; 3] = [
    ("cosine", "Cosine"),
    ("dot_product", "DotProduct"),
    ("euclidean", "Euclidean"),
];

/// The words of `index`, with the variants of the model.
const INDEXES: [Choice; 4] = [
    ("flat", "Flat"),
    ("quantized_flat", "QuantizedFlat"),
    ("disk_ann", "DiskAnn"),
    ("none", NO_INDEX),
];

pub(super) const NO_INDEX: &str = "";

/// A word, and the variant of the model.
type Choice = (&'static str, &'static str);

const VECTOR_FORM: &str = "write `vector(dimensions = 1536)`, and `distance = …` and `index = …` where the defaults `cosine` and `quantized_flat` do not fit";

impl FromMeta for VectorSetting {
    fn from_meta(meta: &Meta) -> Result<Self, Error> {
        let parser = |input: ParseStream<'_>| Self::read(input, meta.path().span());
        list(meta, VECTOR_FORM, parser)
    }
}

impl VectorSetting {
    fn read(input: ParseStream<'_>, span: Span) -> syn::Result<Self> {
        let mut dimensions = None;
        let (mut distance, mut index) = ("Cosine", "QuantizedFlat");
        while !input.is_empty() {
            let name: Ident = input.parse()?;
            input.parse::<Token![=]>()?;
            match &*name.to_string() {
                "dimensions" => dimensions = Some(input.parse::<LitInt>()?.base10_parse()?),
                "distance" => distance = one_of(&DISTANCES, "distance", input)?,
                "index" => index = one_of(&INDEXES, "index", input)?,
                other => {
                    let known = ["dimensions", "distance", "index"];
                    let text = format!(
                        "unknown setting `{other}`{}",
                        suggestion(other, known.iter())
                    );
                    return Err(syn::Error::new(name.span(), text));
                }
            }
            if input.parse::<Option<Token![,]>>()?.is_none() && !input.is_empty() {
                return Err(input.error(VECTOR_FORM));
            }
        }
        let dimensions = dimensions.ok_or_else(|| syn::Error::new(span, VECTOR_FORM))?;
        Ok(Self {
            dimensions,
            span,
            distance,
            index,
        })
    }
}

/// Reads one of the words of `choices`.
fn one_of(choices: &[Choice], what: &str, input: ParseStream<'_>) -> syn::Result<&'static str> {
    let word: Ident = input.parse()?;
    let found = choices.iter().find(|(name, _)| word == name);
    found.map(|(_, variant)| *variant).ok_or_else(|| {
        let names: Vec<_> = choices
            .iter()
            .map(|(name, _)| format!("`{name}`"))
            .collect();
        let text = format!("`{word}` is no {what}; choose one of {}", names.join(", "));
        syn::Error::new(word.span(), text)
    })
}

/// `full_text`, or `full_text = "de-DE"`.
#[derive(Clone, Debug)]
pub(super) struct FullTextSetting {
    pub(super) language: String,
}

impl FromMeta for FullTextSetting {
    fn from_meta(meta: &Meta) -> Result<Self, Error> {
        let form =
            "write `full_text`, or `full_text = \"de-DE\"` for another language than English";
        match meta {
            Meta::Path(_) => Ok(Self {
                language: "en-US".to_owned(),
            }),
            Meta::NameValue(setting) => {
                let value = &setting.value;
                let language: LitStr =
                    syn::parse2(quote::quote!(#value)).map_err(|_| mistake(value.span(), form))?;
                Ok(Self {
                    language: language.value(),
                })
            }
            Meta::List(list) => Err(mistake(list.path.span(), form)),
        }
    }
}
