//! What the types of a condition must be, and how an index serves it.

use proc_macro2::Span;
use syn::Error;

use super::token::{Kind, Token};

/// Splits a condition at its `AND`s, except those of `BETWEEN`. A condition with an operator that
/// binds less than `AND` stays whole.
pub(super) fn conjuncts(filter: &[Token]) -> Vec<&[Token]> {
    let binds_less = |token: &Token| token.is("OR") || token.is_symbol(&["?", "??"]);
    if filter.iter().any(binds_less) {
        return vec![filter];
    }
    let (mut parts, mut start, mut between) = (Vec::new(), 0, false);
    for (at, token) in filter.iter().enumerate() {
        if token.is("BETWEEN") {
            between = true;
        } else if token.is("AND") {
            if !between {
                parts.push(&filter[start..at]);
                start = at + 1;
            }
            between = false;
        }
    }
    parts.push(&filter[start..]);
    parts
}

/// How an index serves a condition, best first: the variants of `IndexUse`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    Equality,
    Range,
    Scan,
    Unserved,
}

/// Returns how an index serves a condition: as badly as its worst part.
pub(super) fn index_use(condition: &[Token]) -> syn::Result<Use> {
    match judge(condition)? {
        (1, worst) => Ok(worst),
        // No path, or several that are compared with each other.
        _ => Ok(Use::Unserved),
    }
}

/// Returns how many paths tokens contain, and their worst use of an index.
fn judge(tokens: &[Token]) -> syn::Result<(usize, Use)> {
    let (mut paths, mut worst) = (0, Use::Equality);
    for (at, token) in tokens.iter().enumerate() {
        let next = tokens.get(at + 1).map(|next| &next.kind);
        worst = worst.max(match &token.kind {
            Kind::Rust(_) => {
                paths += usize::from(token.path()?.is_some());
                Use::Equality
            }
            Kind::Group(_, inner, _) => {
                let (inner_paths, inner) = judge(inner)?;
                paths += inner_paths;
                inner
            }
            Kind::Symbol(symbol) => match &**symbol {
                "=" | "," | "." => Use::Equality,
                "<" | "<=" | ">" | ">=" => Use::Range,
                // Also arithmetic, which no index knows the result of.
                _ => Use::Unserved,
            },
            Kind::Word(word) => match &*word.to_ascii_uppercase() {
                "OR" | "NOT" => Use::Unserved,
                "STARTSWITH" if next.is_some_and(ignores_case) => Use::Scan,
                "IN" | "BETWEEN" | "IS_DEFINED" | "IS_NULL" | "STARTSWITH" | "ARRAY_CONTAINS" => {
                    Use::Range
                }
                "LIKE" | "CONTAINS" | "ENDSWITH" | "REGEXMATCH" | "STRINGEQUALS" => Use::Scan,
                "AND" => Use::Equality,
                _ if matches!(next, Some(Kind::Group('(', ..))) => Use::Unserved,
                _ => Use::Equality,
            },
        });
    }
    Ok((paths, worst))
}

/// Whether the arguments of a function on text have a third one.
fn ignores_case(arguments: &Kind) -> bool {
    let is_comma = |token: &&Token| token.is_symbol(&[","]);
    matches!(arguments, Kind::Group('(', inner, _) if inner.iter().filter(is_comma).count() > 1)
}

/// Refuses properties in conditions that are not paths of the model.
pub(super) fn check_properties(tokens: &[Token], span: Span) -> syn::Result<()> {
    for (at, token) in tokens.iter().enumerate() {
        if let Kind::Group(_, inner, _) = &token.kind {
            check_properties(inner, span)?;
        }
        let follows_dot = at > 0 && tokens[at - 1].is_symbol(&["."]);
        let is_document = matches!(token.word(), Some("c")) && !follows_dot;
        let name = match (tokens.get(at + 1), tokens.get(at + 2)) {
            (Some(dot), Some(name)) if dot.is_symbol(&["."]) => name.word().unwrap_or_default(),
            (
                Some(Token {
                    kind: Kind::Group('[', ..),
                    ..
                }),
                _,
            ) => "[…]",
            _ => continue,
        };
        // The service always indexes the id and its own properties.
        if is_document && name != "id" && !name.starts_with('_') {
            return Err(Error::new(
                span,
                format!(
                    "no index is known for `c.{name}` in a condition; write the constant of its path, such as `{{Order::STATE}}`"
                ),
            ));
        }
    }
    Ok(())
}

/// How the type of a value follows from a path: the function that checks it, and the path.
pub(super) type Compared<'a> = (&'static str, &'a Token);

/// Returns the function that checks the values of a comparison.
fn operator_of(operator: &Token) -> Option<&'static str> {
    if operator.is_symbol(&["=", "!=", "<>"]) {
        Some("equal")
    } else if operator.is_symbol(&["<", "<=", ">", ">="]) || operator.is("BETWEEN") {
        Some("ordered")
    } else if operator.is("LIKE") {
        Some("matched")
    } else {
        None
    }
}

/// Returns the path that the value at `at` is compared with. `before` are the tokens before the group
/// of `tokens`.
pub(super) fn compared<'a>(
    tokens: &'a [Token],
    at: usize,
    before: &'a [Token],
) -> syn::Result<Option<Compared<'a>>> {
    let path = |token: Option<&'a Token>| match token {
        Some(token) => Ok::<_, Error>(token.path()?.map(|_| token)),
        None => Ok(None),
    };
    let back = |steps: usize| at.checked_sub(steps).and_then(|at| tokens.get(at));
    for (operator, other) in [(back(1), back(2)), (tokens.get(at + 1), tokens.get(at + 2))] {
        let Some(operator) = operator else { continue };
        let Some(function) = operator_of(operator) else {
            continue;
        };
        // `{path} NOT LIKE {value}`
        let other = if other.is_some_and(|not| not.is("NOT")) {
            back(3)
        } else {
            other
        };
        if let Some(path) = path(other)? {
            return Ok(Some((function, path)));
        }
    }
    if let (Some(and), Some(between)) = (back(1), back(3))
        && and.is("AND")
        && between.is("BETWEEN")
        && let Some(path) = path(back(4))?
    {
        return Ok(Some(("ordered", path)));
    }
    let Some((last, others)) = before.split_last() else {
        return Ok(None);
    };
    // `{path} = ({value})`
    if tokens.len() == 1
        && let Some(path) = path(others.last())?
        && let Some(function) = operator_of(last)
    {
        return Ok(Some((function, path)));
    }
    if last.is("IN") {
        let skipped = usize::from(others.last().is_some_and(|not| not.is("NOT")));
        let other = others
            .len()
            .checked_sub(skipped + 1)
            .and_then(|at| others.get(at));
        return Ok(path(other)?.map(|path| ("equal", path)));
    }
    let function = match last.word().map(str::to_ascii_uppercase).as_deref() {
        Some("ARRAY_CONTAINS") => "element",
        Some("STARTSWITH" | "ENDSWITH" | "CONTAINS" | "STRINGEQUALS" | "REGEXMATCH") => "matched",
        _ => return Ok(None),
    };
    Ok(path(tokens.first().filter(|_| at == 2))?.map(|path| (function, path)))
}
