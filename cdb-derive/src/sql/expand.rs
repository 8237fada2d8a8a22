//! Writes a checked statement as Rust.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::spanned::Spanned as _;
use syn::{Expr, Type};

use super::clauses::Clauses;
use super::columns::{Name, Select, Source};
use super::conditions::{check_properties, compared, conjuncts, index_use};
use super::token::{Kind, Token};
use crate::input::settings::dependency_path;
use crate::output::private::import;

pub(super) fn expand(clauses: &Clauses, row: Option<&Type>) -> syn::Result<TokenStream> {
    let Clauses { from, span, .. } = clauses;
    let import = import(&dependency_path());
    let row = match (&clauses.select, row) {
        (Select::Documents, None) => quote!(__model::Documents),
        (Select::Documents, Some(row)) => {
            return Err(syn::Error::new(
                row.span(),
                "the rows of `SELECT *` are `Stored` documents, as those of `Query`; remove the type, or name the columns",
            ));
        }
        (_, row) => row.map_or_else(|| quote!(_), |row| quote!(#row)),
    };
    let writer = Writer { from };
    let select = writer.select(&clauses.select)?;
    let joins = if clauses.joins.is_empty() {
        TokenStream::new()
    } else {
        let joins = writer.fragment(&clauses.joins, false)?;
        quote!(.joins(#joins))
    };
    let conditions = conjuncts(&clauses.filter)
        .into_iter()
        .filter(|part| !part.is_empty());
    let conditions = conditions.map(|condition| {
        check_properties(condition, *span)?;
        let used = format_ident!("{}", format!("{:?}", index_use(condition)?));
        let condition = writer.fragment(condition, true)?;
        Ok(quote!(.condition(#condition, __model::IndexUse::#used)))
    });
    let conditions = conditions.collect::<syn::Result<Vec<_>>>()?;
    let order = clauses.order.as_ref().map(|(path, descending)| {
        let method = format_ident!("{}", if *descending { "desc" } else { "asc" }, span = *span);
        quote!(.order(#path.#method()))
    });
    let top = clauses.top.as_ref().map(|top| {
        let rows = match &top.kind {
            Kind::Rust(text) => text.parse::<Expr>(),
            Kind::Word(number) => syn::parse_str(number),
            _ => Err(syn::Error::new(*span, "`TOP` takes a number")),
        };
        rows.map(|rows| quote!(.top(#rows)))
    });
    let top = top.transpose()?;
    Ok(quote!({
        #import
        __model::Sql::<#from, #row>::#select #joins #(#conditions)* #order #top
    }))
}

struct Writer<'a> {
    from: &'a Type,
}

impl Writer<'_> {
    fn select(&self, select: &Select) -> syn::Result<TokenStream> {
        Ok(match select {
            Select::Documents => quote!(documents()),
            Select::Value(value) => {
                let value = self.fragment(value, false)?;
                quote!(value(#value))
            }
            Select::Columns(columns) => {
                let columns = columns.iter().map(|(name, value)| {
                    let (name, value) = (column_name(name), self.fragment(value, false)?);
                    Ok(quote!((#name, #value)))
                });
                let columns = columns.collect::<syn::Result<Vec<_>>>()?;
                quote!(columns(__model::vec![#(#columns),*]))
            }
            Select::Groups { columns, keys } => {
                let columns = columns.iter().map(|(name, source)| {
                    let name = name.as_ref().map(column_name);
                    let name = name.map_or(quote!(__model::None), |name| quote!(__model::Some(#name)));
                    Ok(match source {
                        Source::Key(number) => quote!(__model::Column::key(#name, #number)),
                        Source::Aggregate(kind, argument) => {
                            let argument = self.argument(kind, argument)?;
                            let kind = format_ident!("{kind}");
                            quote!(__model::Column::aggregate(#name, __model::AggregateKind::#kind, #argument))
                        }
                    })
                });
                let columns = columns.collect::<syn::Result<Vec<_>>>()?;
                let keys = keys.iter().map(|key| self.fragment(key, false));
                let keys = keys.collect::<syn::Result<Vec<_>>>()?;
                quote!(groups(
                    __model::vec![#(#columns),*],
                    __model::vec![#(#keys),*]
                ))
            }
        })
    }

    /// Writes the argument of an aggregate. A path leaves out nulls, as the methods of paths do.
    fn argument(&self, kind: &str, argument: &[Token]) -> syn::Result<TokenStream> {
        let path = match argument {
            [single] => single.path()?,
            _ => None,
        };
        let function = match kind {
            "Sum" | "Average" => "summed",
            "Min" | "Max" => "ordered_argument",
            _ => return self.fragment(argument, false),
        };
        let Some(path) = path else {
            return self.fragment(argument, false);
        };
        let (function, from) = (format_ident!("{function}"), self.from);
        Ok(quote!(__model::#function::<#from, _, _, _, _, _>(#path)))
    }

    /// Writes text, paths and values. Paths of a condition must have an index.
    fn fragment(&self, tokens: &[Token], is_condition: bool) -> syn::Result<TokenStream> {
        let mut written = quote!(__model::Fragment::new());
        let mut text = String::new();
        self.write(tokens, &[], is_condition, &mut text, &mut written)?;
        if !text.is_empty() {
            written.extend(quote!(.text(#text)));
        }
        Ok(written)
    }

    fn write(
        &self,
        tokens: &[Token],
        before: &[Token],
        is_condition: bool,
        text: &mut String,
        written: &mut TokenStream,
    ) -> syn::Result<()> {
        for (at, token) in tokens.iter().enumerate() {
            // The first token of a fragment needs no space.
            if token.spaced && !(at == 0 && before.is_empty()) {
                text.push(' ');
            }
            match &token.kind {
                Kind::Word(word) | Kind::Symbol(word) => text.push_str(word),
                Kind::Group(open, inner, close) => {
                    text.push(*open);
                    self.write(inner, &tokens[..at], is_condition, text, written)?;
                    text.push(*close);
                }
                Kind::Rust(rust) => {
                    let sql = std::mem::take(text);
                    if !sql.is_empty() {
                        written.extend(quote!(.text(#sql)));
                    }
                    written.extend(match token.path()? {
                        Some(path) => self.path(&path, is_condition),
                        None => value(&rust.parse()?, compared(tokens, at, before)?)?,
                    });
                }
            }
        }
        Ok(())
    }

    fn path(&self, path: &Expr, is_condition: bool) -> TokenStream {
        let from = self.from;
        let path = if is_condition {
            quote!(__model::filtered(#path))
        } else {
            quote!(#path)
        };
        quote!(.path(__model::pointer_of::<#from, _, _, _, _, _>(#path)))
    }
}

fn value(value: &Expr, compared: Option<(&str, &Token)>) -> syn::Result<TokenStream> {
    if let Some((function, token)) = compared
        && let Some(path) = token.path()?
    {
        let function = format_ident!("{function}");
        return Ok(quote!(.value(#path.pointer(), __model::#function(#path, #value))));
    }
    Ok(quote!(.value("sql!", __model::untyped(#value))))
}

fn column_name(name: &Name) -> TokenStream {
    match name {
        Name::Word(word) => quote!(#word),
        Name::OfPath(path) => quote!(__model::column_of(#path)),
    }
}
