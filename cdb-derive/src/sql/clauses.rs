//! The clauses of a statement.

use proc_macro2::Span;
use syn::{Error, Type};

use super::columns::{Select, split};
use super::token::{Kind, Token};

/// A statement, divided by its clauses.
pub(super) struct Clauses {
    pub span: Span,
    pub select: Select,
    /// The type of the documents.
    pub from: Type,
    /// What follows the type.
    pub joins: Vec<Token>,
    pub filter: Vec<Token>,
    /// The path or composite of the sort, and whether it is descending.
    pub order: Option<(syn::Expr, bool)>,
    pub top: Option<Token>,
}

const CLAUSES: [&str; 6] = ["SELECT", "FROM", "WHERE", "GROUP", "ORDER", "OFFSET"];

impl Clauses {
    pub(super) fn read(tokens: Vec<Token>, span: Span) -> syn::Result<Self> {
        let error = |text: &str| Error::new(span, text);
        if !tokens.first().is_some_and(|first| first.is("SELECT")) {
            return Err(error(
                "a statement begins with `SELECT`, for example `SELECT * FROM {Order} WHERE {Order::STATE} = {state}`",
            ));
        }
        if let Some(text) = refused_inside(&tokens, false) {
            return Err(error(text));
        }
        let mut found: [Vec<Token>; CLAUSES.len()] = Default::default();
        let (mut current, mut after_dot) = (0, false);
        for token in tokens {
            let clause = CLAUSES.iter().position(|clause| token.is(clause));
            match clause.filter(|_| !after_dot) {
                Some(clause) if clause == 0 || clause > current => current = clause,
                Some(clause) => {
                    return Err(error(&format!(
                        "`{}` is in the wrong place; the order is `SELECT`, `FROM`, `WHERE`, `GROUP BY`, `ORDER BY`",
                        CLAUSES[clause]
                    )));
                }
                None => {
                    after_dot = token.is_symbol(&["."]);
                    found[current].push(token);
                }
            }
        }
        let [select, from, filter, groups, order, offset] = found;
        if !offset.is_empty() {
            return Err(error(
                "`OFFSET` reads and charges the rows that it skips; read pages instead, with `QueryRun::page`",
            ));
        }
        let groups = after_by(groups, "GROUP", span)?;
        let order = after_by(order, "ORDER", span)?;
        let (from, joins) = source(from, span)?;
        let (select, top) = Select::read(&select, split(&groups), span)?;
        let is_merged = matches!(select, Select::Groups { .. });
        if is_merged && (top.is_some() || !order.is_empty()) {
            return Err(error(
                "the client merges aggregates, groups and distinct values, in the order of their keys: remove `TOP` and `ORDER BY`",
            ));
        }
        Ok(Self {
            span,
            select,
            from,
            joins,
            filter,
            order: sort(&order, span)?,
            top,
        })
    }
}

/// Returns why the service refuses a sub-query: SC2202, SC2204 (azure-cosmos-dotnet-v3#1723,
/// vscode-cosmosdb#3148).
fn refused_inside(tokens: &[Token], is_sub_query: bool) -> Option<&'static str> {
    let mut after_dot = false;
    for (at, token) in tokens.iter().enumerate() {
        if let Kind::Group(_, inner, _) = &token.kind {
            let is_sub_query = inner.first().is_some_and(|first| first.is("SELECT"));
            if let Some(text) = refused_inside(inner, is_sub_query) {
                return Some(text);
            }
        }
        let is_sort = token.is("ORDER") && tokens.get(at + 1).is_some_and(|next| next.is("BY"));
        if is_sub_query && !after_dot && is_sort {
            return Some("the service refuses `ORDER BY` in a sub-query; sort the rows in code");
        }
        if is_sub_query && !after_dot && token.is("OFFSET") {
            return Some("the service refuses `OFFSET LIMIT` in a sub-query; use `TOP`");
        }
        after_dot = token.is_symbol(&["."]);
    }
    None
}

/// Removes the `BY` of a clause.
fn after_by(mut clause: Vec<Token>, name: &str, span: Span) -> syn::Result<Vec<Token>> {
    if !clause.is_empty() && !clause.remove(0).is("BY") {
        return Err(Error::new(span, format!("`BY` is missing after `{name}`")));
    }
    Ok(clause)
}

fn source(mut from: Vec<Token>, span: Span) -> syn::Result<(Type, Vec<Token>)> {
    let text = match from.first().map(|first| &first.kind) {
        Some(Kind::Rust(text)) => text.clone(),
        _ => {
            return Err(Error::new(
                span,
                "`FROM` names the document type or the container that is read: write `FROM {Order}`, and `c` for a document",
            ));
        }
    };
    from.remove(0);
    if from.first().is_some_and(|alias| alias.is("c")) {
        from.remove(0);
    }
    if from.first().is_some_and(|join| !join.is("JOIN")) {
        return Err(Error::new(
            span,
            "a document is called `c`; only `JOIN` follows `FROM {Order}`",
        ));
    }
    Ok((text.parse()?, from))
}

fn sort(order: &[Token], span: Span) -> syn::Result<Option<(syn::Expr, bool)>> {
    let (target, rest) = match order {
        [] => return Ok(None),
        [target, rest @ ..] => (target, rest),
    };
    let is_descending = match rest {
        [] => Some(false),
        [direction] if direction.is("ASC") => Some(false),
        [direction] if direction.is("DESC") => Some(true),
        _ => None,
    };
    target.path()?.zip(is_descending).map(Some).ok_or_else(|| Error::new(
        span,
        "sort by the constant of one path, `ORDER BY {Order::TOTAL} DESC`, or of a composite index, `ORDER BY {Order::BY_TOTAL}`",
    ))
}
