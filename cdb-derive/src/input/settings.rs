//! Reads the settings of `#[document(…)]` and `#[container(…)]` one by one, so that all mistakes
//! are reported.
//!
//! darling's own derive stops reading an attribute at its first mistake, and its messages speak of
//! "fields". This module uses only darling's errors and its conversion trait.

use darling::FromMeta;
use darling::ast::NestedMeta;
use darling::error::Accumulator;
use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::Span;
use syn::parse::Parser;
use syn::spanned::Spanned;
use syn::{Attribute, Ident, Meta};

use crate::input::diag::{mistake, suggestion};

/// Declares the settings of an attribute at one place: the word of each, its field, and the type of
/// its value. `foreign` are the words of the other place, with a name of that place.
macro_rules! settings {
    (
        $(#[$docs:meta])*
        struct $name:ident = $attribute:literal {
            $($($word:literal)|+ => $field:ident: $value:ty,)*
        }
        foreign: $foreign:expr, $elsewhere:literal
    ) => {
        $(#[$docs])*
        #[derive(Debug, Default)]
        pub(super) struct $name {
            $(pub(super) $field: $value,)*
            /// Whether an attribute could not be parsed, so that missing settings are not reported.
            pub(super) unreadable: bool,
        }

        impl $name {
            pub(super) const WORDS: &[&str] = &[$($($word),+),*];

            /// Reads all attributes of this place.
            pub(super) fn read(
                attributes: &[syn::Attribute],
                errors: &mut darling::error::Accumulator,
            ) -> Self {
                let vocabulary = $crate::input::settings::Vocabulary {
                    attribute: $attribute,
                    words: Self::WORDS,
                    foreign: $foreign,
                    elsewhere: $elsewhere,
                };
                let mut found = Self::default();
                let readable = vocabulary.read(attributes, errors, |word, errors| {
                    match &*word.name {
                        $($($word)|+ => $crate::input::settings::Take::take(&mut found.$field, word, errors),)*
                        _ => {}
                    }
                });
                found.unreadable = !readable;
                found
            }
        }
    };
}
pub(crate) use settings;

/// The settings of an attribute at one place.
pub(crate) struct Vocabulary {
    /// The name of the attribute.
    pub(crate) attribute: &'static str,
    /// The settings at this place.
    pub(crate) words: &'static [&'static str],
    /// The settings at the other place.
    pub(crate) foreign: &'static [&'static str],
    /// The other place, for a diagnostic.
    pub(crate) elsewhere: &'static str,
}

/// A setting as written.
pub(crate) struct Word<'a> {
    pub(crate) name: String,
    pub(crate) meta: &'a Meta,
}

impl Vocabulary {
    /// Calls `read` for each known setting, and reports the others. Returns `false` if an
    /// attribute could not be parsed, so that a missing setting must not be reported.
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
                    "a setting of `{}` starts with its name, such as `{}`",
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
        let name = name_of(meta);
        if self.words.contains(&&*name) {
            read(&Word { name, meta }, errors);
            return true;
        }
        let text = if self.foreign.contains(&&*name) {
            format!("`{name}` is a setting of {}", self.elsewhere)
        } else {
            format!("unknown setting `{name}`{}", suggestion(&name, self.words))
        };
        errors.push(mistake(meta.path().span(), text));
        true
    }
}

fn name_of(meta: &Meta) -> String {
    meta.path()
        .get_ident()
        .map(ToString::to_string)
        .unwrap_or_default()
}

/// A setting that is allowed once.
#[derive(Debug)]
pub(crate) struct Setting<T> {
    /// The span of its name.
    given: Option<Span>,
    /// Its value, if it is valid.
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

/// The values of a setting.
pub(crate) trait Take {
    /// Reads a value.
    fn take(&mut self, word: &Word<'_>, errors: &mut Accumulator);
}

/// A setting that may be repeated.
impl<T: FromMeta> Take for Vec<T> {
    fn take(&mut self, word: &Word<'_>, errors: &mut Accumulator) {
        self.extend(errors.handle(T::from_meta(word.meta)));
    }
}

/// Returns the mistake of a repeated setting.
pub(crate) fn given_twice(word: &Word<'_>) -> darling::Error {
    let text = format!("`{}` is given twice", word.name);
    mistake(word.meta.path().span(), text)
}

impl<T: FromMeta> Take for Setting<T> {
    /// Reads the value. Reports a repeated setting.
    fn take(&mut self, word: &Word<'_>, errors: &mut Accumulator) {
        if self.given.is_some() {
            errors.push(given_twice(word));
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
    /// Whether the setting is given, with a valid or an invalid value.
    pub(crate) fn is_given(&self) -> bool {
        self.given.is_some()
    }

    /// Returns the span of the name.
    pub(crate) fn word(&self) -> Option<Span> {
        self.given
    }

    /// Returns the value.
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.as_ref().map(|(value, _)| value)
    }

    /// Returns the span of the value.
    pub(crate) fn span(&self) -> Option<Span> {
        self.value.as_ref().map(|(_, span)| *span)
    }
}

/// A setting without a value, such as `ttl`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark;

impl FromMeta for Mark {
    fn from_meta(meta: &Meta) -> darling::Result<Self> {
        match meta {
            Meta::Path(_) => Ok(Self),
            other => {
                let word = name_of(other);
                let text = format!("`{word}` takes no value; write only `{word}`");
                Err(mistake(other.path().span(), text))
            }
        }
    }
}

/// Parses the tokens of `word(…)`. The error for a word without parentheses shows `form`.
pub(crate) fn list<P: Parser>(meta: &Meta, form: &str, parser: P) -> darling::Result<P::Output> {
    let Meta::List(list) = meta else {
        return Err(mistake(meta.path().span(), form));
    };
    let parsed = parser.parse2(list.tokens.clone());
    parsed.map_err(|error| mistake(error.span(), &error))
}

/// Reads the path of `word = Path`. The error shows `form`.
pub(crate) fn path(meta: &Meta, form: &str) -> darling::Result<syn::Path> {
    match meta {
        Meta::NameValue(setting) => match ungrouped(&setting.value) {
            syn::Expr::Path(path) => Ok(path.path.clone()),
            other => Err(mistake(other.span(), form)),
        },
        other => Err(mistake(other.path().span(), form)),
    }
}

/// `crate = path`: the path of `cdb_model`.
#[derive(Clone, Debug)]
pub(crate) struct CratePath(syn::Path);

impl Setting<CratePath> {
    /// Returns the path of `cdb_model`: the given one, or that of the crate's dependencies.
    pub(crate) fn path(&self) -> syn::Path {
        self.get()
            .map_or_else(dependency_path, |path| path.0.clone())
    }
}

/// Returns the name of a dependency of the crate that uses the derive.
pub(crate) fn dependency(name: &str) -> Option<Ident> {
    match crate_name(name) {
        Ok(FoundCrate::Name(name)) => Some(Ident::new(&name, Span::call_site())),
        // Tests and examples of a crate cannot use `crate`, so the crate has its name as an alias.
        Ok(FoundCrate::Itself) => Some(Ident::new(&name.replace('-', "_"), Span::call_site())),
        Err(_) => None,
    }
}

/// Returns the path of `cdb_model` in the crate that uses the derive, from the `Cargo.toml` of that
/// crate: the dependency `cdb-model`, or `model` of the dependency `cdb-provider`.
pub(crate) fn dependency_path() -> syn::Path {
    if let Some(provider) = dependency("cdb-provider")
        && dependency("cdb-model").is_none()
    {
        return syn::parse_quote!(::#provider::model);
    }
    let model = dependency("cdb-model");
    let model = model.unwrap_or_else(|| Ident::new("cdb_model", Span::call_site()));
    syn::parse_quote!(::#model)
}

impl FromMeta for CratePath {
    fn from_meta(meta: &Meta) -> darling::Result<Self> {
        path(meta, CRATE_FORM).map(Self)
    }
}

const CRATE_FORM: &str = "`crate` takes a path, for example `crate = cdb_provider::model`";

/// A string: `type = "order"`, `id = "{customer_id}:order:{number}"`, `discriminator = "type"`.
#[derive(Clone, Debug)]
pub(crate) struct Text(pub(crate) String);

impl FromMeta for Text {
    fn from_meta(meta: &Meta) -> darling::Result<Self> {
        let example = match &*name_of(meta) {
            "type" => "order",
            "id" => "{customer_id}:order:{number}",
            _ => "type",
        };
        text(meta, example).map(Self)
    }
}

/// Returns the string of `word = "…"`. The error shows the form with `example`.
pub(crate) fn text(meta: &Meta, example: &str) -> darling::Result<String> {
    let word = name_of(meta);
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

/// Removes the invisible groups that a `macro_rules!` macro puts around its arguments.
pub(crate) fn ungrouped(value: &syn::Expr) -> &syn::Expr {
    match value {
        syn::Expr::Group(group) => ungrouped(&group.expr),
        other => other,
    }
}
