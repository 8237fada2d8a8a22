//! The serde attributes that determine the stored form. Attributes that rename are read; attributes
//! that hide the stored paths, or read one value from several forms, are refused.
//!
//! Each place lists the attributes that leave the stored form alone. All others are refused, so an
//! attribute of a later serde is an error and not a wrong result.

use darling::error::Accumulator;
use proc_macro2::Span;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{Attribute, ExprPath, LitStr, Token};

use crate::input::diag::mistake;
use crate::input::rename::RenameRule;

/// The `#[serde(…)]` attributes of a struct.
#[derive(Debug, Default)]
pub(crate) struct SerdeStruct {
    pub(crate) rename_all: RenameRule,
    /// The document whose fields a document may lack.
    pub(crate) default: Option<SerdeDefault>,
}

/// The `#[serde(…)]` attributes of a field.
#[derive(Debug, Default)]
pub(crate) struct SerdeField {
    pub(crate) rename: Option<String>,
    /// The attribute that excludes the field from serialization or deserialization.
    pub(crate) skip: Option<(String, Span)>,
    pub(crate) skip_serializing_if: Option<Span>,
    pub(crate) flatten: Option<Span>,
    /// The value of a field that a document may lack.
    pub(crate) default: Option<SerdeDefault>,
}

/// Where serde's `default` takes a value from.
#[derive(Clone, Debug)]
pub(crate) enum SerdeDefault {
    /// `Default`
    Trait,
    /// `default = "function"`
    Function(ExprPath),
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
                    found.default = Some(default(meta)?);
                    None
                }
                "bound" | "crate" | "expecting" | "rename" => None,
                "deny_unknown_fields" => Some("`deny_unknown_fields` would refuse the properties that the service adds to every document; remove it".to_owned()),
                "tag" | "content" | "untagged" | "transparent" | "into" | "from" | "try_from" | "remote" => {
                    Some(format!("`{name}` changes which paths are stored; remove it from a document"))
                }
                _ => Some(unknown(name)),
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
                "default" => found.default = Some(default(meta)?),
                "skip_serializing_if" => found.skip_serializing_if = Some(span),
                "flatten" => found.flatten = Some(span),
                "with" | "serialize_with" | "deserialize_with" => {
                    return Ok(Some(format!(
                        "`{name}` changes the stored form, but keys, filters and patches use the form of the type; use a type that serializes this way"
                    )));
                }
                "alias" => {
                    let text = "`alias` reads a second name, which filters do not find and which a patch leaves beside the first; give the type a `version` and rename the field in an `upcast`";
                    return Ok(Some(text.to_owned()));
                }
                "bound" | "borrow" => {}
                _ => return Ok(Some(unknown(name))),
            }
            Ok(None)
        });
        found
    }
}

/// A place of a scalar's attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarPlace {
    /// The enum or the newtype.
    Type,
    Variant,
    /// The content of a newtype.
    Content,
}

/// The `#[serde(…)]` attributes that determine the stored names of an enum.
#[derive(Debug, Default)]
pub(crate) struct SerdeScalar {
    /// Of the enum.
    pub(crate) rename_all: RenameRule,
    /// Of a variant.
    pub(crate) rename: Option<String>,
    /// Whether the variant can neither be written nor read.
    pub(crate) is_skipped: bool,
}

/// Reads the names of a scalar, and refuses attributes that give a value another stored form, or
/// several.
pub(crate) fn scalar_form(
    attrs: &[Attribute],
    place: ScalarPlace,
    errors: &mut Accumulator,
) -> SerdeScalar {
    let mut found = SerdeScalar::default();
    for_each(attrs, errors, |name, meta| {
        Ok(match (place, name) {
            (ScalarPlace::Type, "rename_all") => {
                // serde itself refuses an unknown rule.
                let rule = one_name(meta)?.map(|rule| RenameRule::parse(&rule));
                found.rename_all = rule.and_then(Result::ok).unwrap_or_default();
                None
            }
            (ScalarPlace::Variant, "rename") => {
                found.rename = one_name(meta)?;
                None
            }
            (ScalarPlace::Variant, "skip") => {
                found.is_skipped = true;
                None
            }
            (_, "bound")
            | (
                ScalarPlace::Type,
                "crate" | "expecting" | "rename" | "transparent" | "deny_unknown_fields"
                | "rename_all_fields",
            )
            | (ScalarPlace::Variant, "rename_all") => None,
            (ScalarPlace::Variant, "alias") => Some("`alias` reads a second form, which filters do not find; give the document a `version` and rewrite the value in an `upcast`".to_owned()),
            (ScalarPlace::Variant, "other") => Some("`other` reads every unknown value as this variant: filters do not find it, and the next write replaces it; store a newtype of `String`, or implement `Scalar` by hand for an enum that keeps the unknown text".to_owned()),
            (ScalarPlace::Variant, "skip_deserializing") => Some("a document with this value could be written and not be read; use `skip`".to_owned()),
            (ScalarPlace::Variant, "skip_serializing") => Some("a document with this value could be read and not be written; use `skip`".to_owned()),
            (
                _,
                "tag" | "content" | "untagged" | "into" | "from" | "try_from" | "remote" | "with"
                | "serialize_with" | "deserialize_with",
            ) => Some(format!(
                "`{name}` changes the stored form; implement `Scalar` by hand if equal values still have the same form"
            )),
            _ => Some(unknown(name)),
        })
    });
    found
}

fn unknown(name: &str) -> String {
    format!("cdb does not know what serde's `{name}` changes here; remove it")
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

/// Reads `default`, or `default = "function"`.
fn default(meta: &ParseNestedMeta<'_>) -> syn::Result<SerdeDefault> {
    if !meta.input.peek(Token![=]) {
        return Ok(SerdeDefault::Trait);
    }
    let function = meta.value()?.parse::<LitStr>()?;
    function.parse().map(SerdeDefault::Function)
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
