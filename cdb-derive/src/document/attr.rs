//! What was written, every value with its place; nothing is decided here and everything is optional, so that one
//! mistake does not silence the others.

use darling::error::Accumulator;
use darling::{Error, FromMeta};
use proc_macro2::{Ident, Span, TokenStream};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Fields, Meta, Token, Type};

use crate::diag::mistake;
use crate::serde_attr::{SerdeField, SerdeStruct};
use crate::settings::{CratePath, Mark, Setting, Vocabulary, text};

/// A struct as it was written.
#[derive(Debug)]
pub(super) struct RawDocument {
    pub(super) ident: Ident,
    pub(super) vis: syn::Visibility,
    pub(super) settings: StructSettings,
    pub(super) serde: SerdeStruct,
    pub(super) fields: Vec<RawField>,
}

/// `#[document(…)]` of the struct.
#[derive(Debug, Default)]
pub(super) struct StructSettings {
    pub(super) discriminator: Setting<TypeName>,
    pub(super) id: Setting<Pattern>,
    pub(super) composite: Vec<CompositeSetting>,
    pub(super) unique: Vec<UniqueSetting>,
    pub(super) krate: Setting<CratePath>,
}

const OF_STRUCT: &[&str] = &["type", "id", "composite", "unique", "crate"];
const OF_FIELD: &[&str] = &["partition_key", "index", "unindexed", "ttl"];

impl StructSettings {
    /// Reads all attributes of the struct.
    pub(super) fn read(attributes: &[Attribute], errors: &mut Accumulator) -> Self {
        let vocabulary = Vocabulary {
            attribute: "document",
            words: OF_STRUCT,
            foreign: OF_FIELD,
            elsewhere: "a field, not of the struct",
        };
        let mut found = Self::default();
        vocabulary.read(attributes, errors, |word, errors| match &*word.name {
            "type" => found.discriminator.take(word, errors),
            "id" => found.id.take(word, errors),
            "composite" => found
                .composite
                .extend(errors.handle(CompositeSetting::from_meta(word.meta))),
            "unique" => found
                .unique
                .extend(errors.handle(UniqueSetting::from_meta(word.meta))),
            _ => found.krate.take(word, errors),
        });
        found
    }
}

/// A field as it was written.
#[derive(Debug)]
pub(super) struct RawField {
    pub(super) ident: Ident,
    pub(super) vis: syn::Visibility,
    pub(super) ty: Type,
    pub(super) settings: FieldSettings,
    pub(super) serde: SerdeField,
}

/// `#[document(…)]` of a field.
#[derive(Debug, Default)]
pub(super) struct FieldSettings {
    pub(super) partition_key: Setting<PartitionKeySetting>,
    pub(super) index: Setting<IndexSetting>,
    pub(super) unindexed: Setting<Mark>,
    pub(super) ttl: Setting<Mark>,
}

impl FieldSettings {
    fn read(attributes: &[Attribute], errors: &mut Accumulator) -> Self {
        let vocabulary = Vocabulary {
            attribute: "document",
            words: OF_FIELD,
            foreign: OF_STRUCT,
            elsewhere: "the struct, not of a field",
        };
        let mut found = Self::default();
        vocabulary.read(attributes, errors, |word, errors| match &*word.name {
            "partition_key" => found.partition_key.take(word, errors),
            "index" => found.index.take(word, errors),
            "unindexed" => found.unindexed.take(word, errors),
            _ => found.ttl.take(word, errors),
        });
        found
    }
}

/// `type = "order"`.
#[derive(Clone, Debug)]
pub(super) struct TypeName(pub(super) String);

impl FromMeta for TypeName {
    fn from_meta(meta: &Meta) -> Result<Self, Error> {
        text(meta, "order").map(Self)
    }
}

/// `id = "{customer_id}:order:{number}"`.
#[derive(Clone, Debug)]
pub(super) struct Pattern(pub(super) String);

impl FromMeta for Pattern {
    fn from_meta(meta: &Meta) -> Result<Self, Error> {
        text(meta, "{customer_id}:order:{number}").map(Self)
    }
}

/// `partition_key`, or `partition_key(1)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartitionKeySetting {
    pub(super) level: Option<usize>,
}

impl FromMeta for PartitionKeySetting {
    fn from_meta(meta: &Meta) -> Result<Self, Error> {
        match meta {
            Meta::Path(_) => Ok(Self { level: None }),
            Meta::List(list) => list
                .parse_args::<syn::LitInt>()
                .and_then(|level| level.base10_parse())
                .ok()
                .filter(|level| (1..=3).contains(level))
                .map(|level| Self { level: Some(level) })
                .ok_or_else(|| {
                    let span = list
                        .tokens
                        .clone()
                        .into_iter()
                        .next()
                        .map_or(list.span(), |token| token.span());
                    mistake(span, "a partition key has the levels 1, 2 and 3")
                }),
            Meta::NameValue(setting) => Err(mistake(
                setting.value.span(),
                "write `partition_key`, or `partition_key(1)` for a level",
            )),
        }
    }
}

/// `index`, or `index(city: String, lines[].sku: String)`.
#[derive(Clone, Debug)]
pub(super) struct IndexSetting {
    pub(super) nested: Vec<NestedPath>,
}

impl FromMeta for IndexSetting {
    fn from_meta(meta: &Meta) -> Result<Self, Error> {
        match meta {
            Meta::Path(_) => Ok(Self { nested: Vec::new() }),
            Meta::List(list) => {
                let parser = Punctuated::<NestedPath, Token![,]>::parse_terminated;
                let nested = parse(parser, &list.tokens)?;
                Ok(Self {
                    nested: nested.into_iter().collect(),
                })
            }
            Meta::NameValue(setting) => Err(mistake(
                setting.value.span(),
                "write `index`, or `index(city: String)` for paths inside the field",
            )),
        }
    }
}

/// `lines[].sku: String`.
#[derive(Clone, Debug)]
pub(super) struct NestedPath {
    /// Names and `[]`, in order.
    pub(super) parts: Vec<String>,
    pub(super) ty: Type,
    pub(super) span: Span,
}

impl Parse for NestedPath {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let span = input.span();
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
        input.parse::<Token![:]>()?;
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

impl FromMeta for CompositeSetting {
    fn from_meta(meta: &Meta) -> Result<Self, Error> {
        let Meta::List(list) = meta else {
            return Err(mistake(
                meta.span(),
                "write `composite(NAME = first_field, second_field desc)`",
            ));
        };
        let parser = |input: ParseStream<'_>| {
            let name = input.parse()?;
            input.parse::<Token![=]>()?;
            let paths = Punctuated::<CompositePath, Token![,]>::parse_terminated(input)?;
            Ok(Self {
                name,
                paths: paths.into_iter().collect(),
            })
        };
        parse(parser, &list.tokens)
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
}

impl FromMeta for UniqueSetting {
    fn from_meta(meta: &Meta) -> Result<Self, Error> {
        let Meta::List(list) = meta else {
            return Err(mistake(
                meta.span(),
                "write `unique(field)` or `unique(field, other)`",
            ));
        };
        let fields = parse(
            Punctuated::<Ident, Token![,]>::parse_terminated,
            &list.tokens,
        )?;
        Ok(Self {
            fields: fields.into_iter().collect(),
        })
    }
}

fn parse<P: Parser>(parser: P, tokens: &TokenStream) -> Result<P::Output, Error> {
    parser
        .parse2(tokens.clone())
        .map_err(|error| mistake(error.span(), &error))
}

/// Reads a derive's input. `None` when its shape leaves nothing to read.
pub(super) fn read(input: &DeriveInput, errors: &mut Accumulator) -> Option<RawDocument> {
    let name = &input.ident;
    let fields = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => &fields.named,
            Fields::Unnamed(_) | Fields::Unit => {
                errors.push(mistake(
                    name.span(),
                    "`Document` needs a struct with named fields",
                ));
                return None;
            }
        },
        Data::Enum(_) | Data::Union(_) => {
            errors.push(mistake(
                name.span(),
                "`Document` needs a struct with named fields",
            ));
            return None;
        }
    };
    if let Some(parameter) = input.generics.params.first() {
        errors.push(mistake(
            parameter.span(),
            format!(
                "`{name}` is generic; a document type is one type, so write one struct per type"
            ),
        ));
    }
    let settings = StructSettings::read(&input.attrs, errors);
    let serde = SerdeStruct::read(&input.attrs, errors);
    let fields = fields
        .iter()
        .filter_map(|field| {
            Some(RawField {
                ident: field.ident.clone()?,
                ty: field.ty.clone(),
                vis: field.vis.clone(),
                settings: FieldSettings::read(&field.attrs, errors),
                serde: SerdeField::read(&field.attrs, errors),
            })
        })
        .collect();
    Some(RawDocument {
        ident: name.clone(),
        vis: input.vis.clone(),
        settings,
        serde,
        fields,
    })
}
