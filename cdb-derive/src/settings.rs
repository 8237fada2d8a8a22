//! One reader for `#[document(…)]` and `#[container(…)]`: word by word, so that one mistake silences nothing else.
//!
//! darling's own derive gives up a whole attribute at its first mistake and speaks of "fields" where our users see
//! settings; so only its errors and its conversion trait are used, and the words are compared here.

use darling::FromMeta;
use darling::ast::NestedMeta;
use darling::error::Accumulator;
use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{Attribute, Meta};

use crate::diag::{mistake, nearest};

/// The words that an attribute knows at one place.
pub(crate) struct Vocabulary {
    /// The attribute's name.
    pub(crate) attribute: &'static str,
    /// What may be written here.
    pub(crate) words: &'static [&'static str],
    /// What may be written elsewhere.
    pub(crate) foreign: &'static [&'static str],
    /// Where that is.
    pub(crate) elsewhere: &'static str,
}

/// A word as it was written, known to belong here.
pub(crate) struct Word<'a> {
    pub(crate) name: String,
    pub(crate) meta: &'a Meta,
}

impl Vocabulary {
    /// Calls `read` for every word that belongs here, and reports the others. Whether all of them could be told apart:
    /// where not, nothing can be said about what is missing.
    pub(crate) fn read(
        &self,
        attributes: &[Attribute],
        errors: &mut Accumulator,
        mut read: impl FnMut(&Word<'_>, &mut Accumulator),
    ) -> bool {
        let mut readable = true;
        for attribute in attributes
            .iter()
            .filter(|attribute| attribute.path().is_ident(self.attribute))
        {
            match self.words_of(attribute) {
                Ok(words) => {
                    for word in &words {
                        readable &= self.read_word(word, errors, &mut read);
                    }
                }
                Err(error) => {
                    readable = false;
                    errors.push(error);
                }
            }
        }
        readable
    }

    fn words_of(&self, attribute: &Attribute) -> darling::Result<Vec<NestedMeta>> {
        let Meta::List(list) = &attribute.meta else {
            let form = format!(
                "write `#[{}(…)]` with settings in parentheses",
                self.attribute
            );
            return Err(mistake(attribute.path().span(), form));
        };
        NestedMeta::parse_meta_list(list.tokens.clone())
            .map_err(|error| mistake(error.span(), &error))
    }

    fn read_word(
        &self,
        word: &NestedMeta,
        errors: &mut Accumulator,
        read: &mut impl FnMut(&Word<'_>, &mut Accumulator),
    ) -> bool {
        let meta = match word {
            NestedMeta::Meta(meta) => meta,
            NestedMeta::Lit(value) => {
                let text = format!(
                    "a setting of `{}` starts with a word, such as `{}`",
                    self.attribute, self.words[0]
                );
                errors.push(mistake(value.span(), text));
                return false;
            }
            NestedMeta::NameValueInvalidExpr(setting) => {
                errors.push(setting.error.clone());
                return false;
            }
        };
        let name = meta
            .path()
            .get_ident()
            .map(ToString::to_string)
            .unwrap_or_default();
        if self.words.contains(&&*name) {
            read(&Word { name, meta }, errors);
            return true;
        }
        let text = if self.foreign.contains(&&*name) {
            format!("`{name}` is a setting of {}", self.elsewhere)
        } else {
            let known: Vec<String> = self.words.iter().map(|&word| word.to_owned()).collect();
            format!("unknown setting `{name}`{}", nearest(&name, &known))
        };
        errors.push(mistake(meta.path().span(), text));
        true
    }
}

/// A setting that may be given once.
#[derive(Debug)]
pub(crate) struct Setting<T> {
    /// Where its word stands.
    given: Option<Span>,
    /// Its value, when that could be read.
    value: Option<(T, Span)>,
}

impl<T> Default for Setting<T> {
    fn default() -> Self {
        Self {
            given: None,
            value: None,
        }
    }
}

impl<T: FromMeta> Setting<T> {
    /// Takes the value, once.
    pub(crate) fn take(&mut self, word: &Word<'_>, errors: &mut Accumulator) {
        if self.given.is_some() {
            errors.push(mistake(
                word.meta.path().span(),
                format!("`{}` is given twice", word.name),
            ));
            return;
        }
        self.given = Some(word.meta.path().span());
        let span = match word.meta {
            Meta::NameValue(setting) => setting.value.span(),
            Meta::Path(path) => path.span(),
            Meta::List(list) => list.path.span(),
        };
        self.value = errors
            .handle(T::from_meta(word.meta))
            .map(|value| (value, span));
    }
}

impl<T> Setting<T> {
    /// Whether the word stands there, with a value that can be read or not.
    pub(crate) fn is_given(&self) -> bool {
        self.given.is_some()
    }

    /// Where the word stands.
    pub(crate) fn word(&self) -> Option<Span> {
        self.given
    }

    /// The value.
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.as_ref().map(|(value, _)| value)
    }

    /// Where the value stands.
    pub(crate) fn span(&self) -> Option<Span> {
        self.value.as_ref().map(|(_, span)| *span)
    }
}

/// A setting that is only a word, such as `ttl`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark;

impl FromMeta for Mark {
    fn from_meta(meta: &Meta) -> darling::Result<Self> {
        match meta {
            Meta::Path(_) => Ok(Self),
            other => {
                let word = other
                    .path()
                    .get_ident()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                Err(mistake(
                    other.path().span(),
                    format!("`{word}` takes no value; write only `{word}`"),
                ))
            }
        }
    }
}

/// `crate = path`: where `cdb_model` is.
#[derive(Clone, Debug)]
pub(crate) struct CratePath(pub(crate) syn::Path);

impl FromMeta for CratePath {
    fn from_meta(meta: &Meta) -> darling::Result<Self> {
        match meta {
            Meta::NameValue(setting) => match ungrouped(&setting.value) {
                syn::Expr::Path(path) => Ok(Self(path.path.clone())),
                other => Err(mistake(other.span(), CRATE_FORM)),
            },
            other => Err(mistake(other.path().span(), CRATE_FORM)),
        }
    }
}

const CRATE_FORM: &str = "`crate` takes a path, for example `crate = cdb_provider::model`";

/// The string of `word = "…"`; `example` shows the form.
pub(crate) fn text(meta: &Meta, example: &str) -> darling::Result<String> {
    let word = meta
        .path()
        .get_ident()
        .map(ToString::to_string)
        .unwrap_or_default();
    let form = || format!("`{word}` takes a string, for example `{word} = \"{example}\"`");
    let Meta::NameValue(setting) = meta else {
        return Err(mistake(meta.path().span(), form()));
    };
    match ungrouped(&setting.value) {
        syn::Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Str(text),
            ..
        }) => Ok(text.value()),
        other => Err(mistake(other.span(), form())),
    }
}

/// The value itself: what a `macro_rules!` macro hands on stands in an invisible group.
pub(crate) fn ungrouped(value: &syn::Expr) -> &syn::Expr {
    match value {
        syn::Expr::Group(group) => ungrouped(&group.expr),
        other => other,
    }
}
