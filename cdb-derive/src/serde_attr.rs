//! The serde attributes that determine the stored form. Attributes that rename are read; attributes
//! that hide the stored paths are refused.

use darling::error::Accumulator;
use proc_macro2::Span;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{Attribute, LitStr, Token};

use crate::diag::mistake;
use crate::rename::RenameRule;

/// The `#[serde(…)]` attributes of a struct.
#[derive(Debug, Default)]
pub(crate) struct SerdeStruct {
    pub(crate) rename_all: RenameRule,
    /// Whether a document may lack every field.
    pub(crate) default: bool,
}

/// The `#[serde(…)]` attributes of a field.
#[derive(Debug, Default)]
pub(crate) struct SerdeField {
    pub(crate) rename: Option<String>,
    /// The attribute that excludes the field from serialization or deserialization.
    pub(crate) skip: Option<(String, Span)>,
    pub(crate) skip_serializing_if: Option<Span>,
    pub(crate) flatten: Option<Span>,
    /// Whether a document may lack the field.
    pub(crate) default: bool,
}

impl SerdeStruct {
    pub(crate) fn read(attrs: &[Attribute], errors: &mut Accumulator) -> Self {
        let mut found = Self::default();
        for_each(attrs, errors, |name, meta| {
            Ok(match name {
                "rename_all" => {
                    let rule = one_name(meta)?.map(|rule| RenameRule::parse(&rule));
                    let rule = rule.transpose();
                    rule.map(|rule| found.rename_all = rule.unwrap_or_default()).err()
                }
                "default" => {
                    found.default = true;
                    None
                }
                "deny_unknown_fields" => Some("`deny_unknown_fields` would refuse the properties that the service adds to every document; remove it".to_owned()),
                "tag" | "content" | "untagged" | "transparent" | "into" | "from" | "try_from" => {
                    Some(format!("`{name}` changes which paths are stored; remove it from a document"))
                }
                _ => None,
            })
        });
        found
    }
}

impl SerdeField {
    pub(crate) fn read(attrs: &[Attribute], errors: &mut Accumulator) -> Self {
        let mut found = Self::default();
        for_each(attrs, errors, |name, meta| {
            let span = meta.path.span();
            match name {
                "rename" => found.rename = one_name(meta)?,
                "skip" | "skip_serializing" | "skip_deserializing" => {
                    let whole = name == "skip" || found.skip.is_some();
                    let word = if whole { "skip" } else { name };
                    found.skip = Some((word.to_owned(), span));
                }
                "default" => found.default = true,
                "skip_serializing_if" => found.skip_serializing_if = Some(span),
                "flatten" => found.flatten = Some(span),
                "with" | "serialize_with" | "deserialize_with" => {
                    return Ok(Some(format!(
                        "`{name}` changes the stored form, but keys, filters and patches use the form of the type; use a type that serializes this way"
                    )));
                }
                _ => {}
            }
            Ok(None)
        });
        found
    }
}

/// Refuses attributes of a scalar, its variant or its content that change the stored form.
pub(crate) fn refuse_another_form(attrs: &[Attribute], errors: &mut Accumulator) {
    for_each(attrs, errors, |name, _| {
        Ok(match name {
            "tag" | "untagged" | "into" | "from" | "try_from" | "with" | "serialize_with"
            | "deserialize_with" => Some(format!(
                "`{name}` changes the stored form; implement `Scalar` by hand if equal values still have the same form"
            )),
            _ => None,
        })
    });
}

/// Calls `read` for each word in `#[serde(…)]`, which may consume the value of the word. `read`
/// returns the text of a mistake.
fn for_each(
    attrs: &[Attribute],
    errors: &mut Accumulator,
    mut read: impl FnMut(&str, &ParseNestedMeta<'_>) -> syn::Result<Option<String>>,
) {
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("serde")) {
        let parsed = attr.parse_nested_meta(|meta| {
            let text = read(&word(&meta), &meta)?;
            errors.extend(text.map(|text| mistake(meta.path.span(), text)));
            skip_value(&meta)
        });
        if let Err(error) = parsed {
            errors.push(mistake(error.span(), &error));
        }
    }
}

fn word(meta: &ParseNestedMeta<'_>) -> String {
    let ident = meta.path.get_ident();
    ident.map(ToString::to_string).unwrap_or_default()
}

/// Skips the value of a word, unless it is consumed.
fn skip_value(meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
    if meta.input.peek(Token![=]) {
        meta.value()?.parse::<syn::Expr>()?;
    } else if meta.input.peek(syn::token::Paren) {
        let content;
        syn::parenthesized!(content in meta.input);
        content.parse::<proc_macro2::TokenStream>()?;
    }
    Ok(())
}

/// Reads `rename = "x"`, or `rename(serialize = "x", deserialize = "x")` with equal names.
fn one_name(meta: &ParseNestedMeta<'_>) -> syn::Result<Option<String>> {
    if meta.input.peek(Token![=]) {
        return meta
            .value()?
            .parse::<LitStr>()
            .map(|name| Some(name.value()));
    }
    let mut names: Vec<String> = Vec::new();
    meta.parse_nested_meta(|inner| {
        names.push(inner.value()?.parse::<LitStr>()?.value());
        Ok(())
    })?;
    match &*names {
        [a, b] if a == b => Ok(Some(a.clone())),
        _ => {
            let text = format!(
                "`{}` has different names for writing and reading; use one name",
                word(meta)
            );
            Err(syn::Error::new(meta.path.span(), text))
        }
    }
}
