//! Computed properties: their grammar, and their expressions as parts.

use darling::{Error, FromMeta};
use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{LitStr, Meta, Token, Type};

use crate::input::settings::list;

/// `computed(name_lower: String = "LOWER({name})", index)`.
#[derive(Clone, Debug)]
pub(super) struct ComputedSetting {
    pub(super) name: Ident,
    pub(super) ty: Type,
    pub(super) expression: Vec<Part>,
    pub(super) span: Span,
    pub(super) indexed: bool,
}

/// A part of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    /// The name of a field, and the stored names inside it.
    Field(Vec<String>),
}

const FORM: &str = "write `computed(name_lower: String = \"LOWER({name})\")`, with `, index` for filters and sorts";

impl FromMeta for ComputedSetting {
    fn from_meta(meta: &Meta) -> Result<Self, Error> {
        list(meta, FORM, Self::parse)
    }
}

impl Parse for ComputedSetting {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let form = |_| input.error(FORM);
        let name: Ident = input.call(Ident::parse_any).map_err(form)?;
        input.parse::<Token![:]>().map_err(form)?;
        let ty: Type = input.parse()?;
        input.parse::<Token![=]>().map_err(form)?;
        let text: LitStr = input.parse().map_err(form)?;
        let mut indexed = false;
        if input.parse::<Option<Token![,]>>()?.is_some() && !input.is_empty() {
            let word: Ident = input.parse().map_err(form)?;
            if word != "index" {
                return Err(syn::Error::new(word.span(), FORM));
            }
            indexed = true;
            input.parse::<Option<Token![,]>>()?;
        }
        let expression = parts(&text.value());
        let expression = expression.map_err(|error| syn::Error::new(text.span(), error))?;
        Ok(Self {
            name,
            ty,
            expression,
            span: text.span(),
            indexed,
        })
    }
}

/// Splits an expression at its placeholders. `{{` and `}}` are braces of SQL. Returns the text of
/// the diagnostic if the expression is invalid.
fn parts(expression: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut rest = expression;
    while let Some(at) = rest.find(['{', '}']) {
        text.push_str(&rest[..at]);
        let brace = &rest[at..];
        if let Some(after) = brace.strip_prefix("{{") {
            text.push('{');
            rest = after;
        } else if let Some(after) = brace.strip_prefix("}}") {
            text.push('}');
            rest = after;
        } else if let Some((path, after)) = brace
            .strip_prefix('{')
            .and_then(|inner| inner.split_once('}'))
        {
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            parts.push(Part::Field(path.split('.').map(str::to_owned).collect()));
            rest = after;
        } else {
            return Err("a brace has no partner; write `{{` and `}}` for braces of SQL".to_owned());
        }
    }
    text.push_str(rest);
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
    check(&parts)?;
    Ok(parts)
}

/// Checks what can be known without a parser of the service's SQL.
fn check(parts: &[Part]) -> Result<(), String> {
    if !parts.iter().any(|part| matches!(part, Part::Field(_))) {
        return Err(
            "the expression has no field; write fields in braces, for example `LOWER({name})`"
                .to_owned(),
        );
    }
    let text: String = parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => text,
            Part::Field(_) => "c",
        })
        .collect();
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    if words.any(|word| word.eq_ignore_ascii_case("select")) {
        return Err("a computed property is an expression, without `SELECT` and `FROM`".to_owned());
    }
    if is_balanced(&text) {
        Ok(())
    } else {
        Err("a parenthesis, bracket or quotation mark of the expression has no partner".to_owned())
    }
}

/// Whether every parenthesis, bracket, brace and quotation mark has its partner.
fn is_balanced(text: &str) -> bool {
    let mut open = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            ')' | ']' | '}' if open.pop() != Some(c) => return false,
            '"' | '\'' => loop {
                match chars.next() {
                    Some('\\') => drop(chars.next()),
                    Some(end) if end == c => break,
                    Some(_) => {}
                    None => return false,
                }
            },
            _ => {}
        }
    }
    open.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(path: &[&str]) -> Part {
        Part::Field(path.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn an_expression_is_split_at_its_fields() {
        assert_eq!(
            parts(r#"{{"city": UPPER({address.city})}}"#).unwrap(),
            [
                Part::Text(r#"{"city": UPPER("#.to_owned()),
                field(&["address", "city"]),
                Part::Text(")}".to_owned()),
            ]
        );
    }

    #[test]
    fn an_expression_that_cannot_be_sql_is_refused() {
        for (expression, reason) in [
            ("1 + 2", "the expression has no field"),
            ("{a", "a brace has no partner"),
            ("a}", "a brace has no partner"),
            ("SELECT VALUE {a}", "a computed property is an expression"),
            ("LOWER({a}", "a parenthesis"),
            ("CONCAT({a}, ')", "a parenthesis"),
            ("({a}]", "a parenthesis"),
        ] {
            let error = parts(expression).unwrap_err();
            assert!(error.starts_with(reason), "{expression}: {error}");
        }
        assert!(parts(r"CONCAT({selected}, ') \' (')").is_ok());
    }
}
