//! The columns of a statement. The client merges aggregates, groups and distinct values of several
//! physical partitions, so each of them is a column of its own.

use proc_macro2::Span;
use syn::{Error, Expr};

use super::token::{Kind, Token};

/// What a statement selects.
pub(super) enum Select {
    /// Whole documents.
    Documents,
    /// One value of each document.
    Value(Vec<Token>),
    /// Named values of each document.
    Columns(Vec<(Name, Vec<Token>)>),
    /// Columns of each group.
    Groups {
        /// A column without a name is that of `SELECT VALUE`.
        columns: Vec<(Option<Name>, Source)>,
        keys: Vec<Vec<Token>>,
    },
}

/// The name of a column.
pub(super) enum Name {
    Word(String),
    /// The last name of a path.
    OfPath(Expr),
}

impl Name {
    /// Returns the name; `None` for that of a path.
    fn word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            Self::OfPath(_) => None,
        }
    }
}

/// What a column of groups contains.
pub(super) enum Source {
    Key(usize),
    /// The variant of `AggregateKind`, and the argument.
    Aggregate(&'static str, Vec<Token>),
}

const AGGREGATES: [(&str, &str); 5] = [
    ("COUNT", "Count"),
    ("SUM", "Sum"),
    ("MIN", "Min"),
    ("MAX", "Max"),
    ("AVG", "Average"),
];

/// Splits tokens at commas.
pub(super) fn split(tokens: &[Token]) -> Vec<Vec<Token>> {
    let parts = tokens.split(|token| token.is_symbol(&[","]));
    parts
        .filter(|part| !part.is_empty())
        .map(<[Token]>::to_vec)
        .collect()
}

/// Returns the kind and the argument of an aggregate.
fn aggregate(tokens: &[Token]) -> Option<(&'static str, &[Token])> {
    let (Kind::Word(name), Kind::Group('(', argument, _)) =
        (&tokens.first()?.kind, &tokens.get(1)?.kind)
    else {
        return None;
    };
    let mut known = AGGREGATES.iter();
    let (_, kind) = known.find(|(word, _)| name.eq_ignore_ascii_case(word))?;
    Some((kind, argument))
}

/// Whether an aggregate is inside an expression. A subquery has its own.
fn has_aggregate(tokens: &[Token]) -> bool {
    (0..tokens.len()).any(|at| {
        aggregate(&tokens[at..]).is_some()
            || matches!(&tokens[at].kind, Kind::Group(_, inner, _)
                if !inner.first().is_some_and(|first| first.is("SELECT")) && has_aggregate(inner))
    })
}

impl Select {
    /// Reads the clause `SELECT`, with the keys of `GROUP BY`. Also returns the number of `TOP`.
    pub(super) fn read(
        select: &[Token],
        groups: Vec<Vec<Token>>,
        span: Span,
    ) -> syn::Result<(Self, Option<Token>)> {
        let error = |text: &str| Err(Error::new(span, text));
        let mut rest = select;
        let mut take = |keyword: &str| match rest {
            [first, others @ ..] if first.is(keyword) => {
                rest = others;
                true
            }
            _ => false,
        };
        let is_distinct = take("DISTINCT");
        let has_top = take("TOP");
        let top = if has_top {
            select.get(usize::from(is_distinct) + 1).cloned()
        } else {
            None
        };
        if top.is_some() {
            rest = &rest[1..];
        }
        let is_value = matches!(rest, [first, ..] if first.is("VALUE"));
        rest = &rest[usize::from(is_value)..];
        let columns = split(rest);
        if columns.is_empty() {
            return error("`SELECT` has no columns; write `SELECT *`, `SELECT VALUE …` or columns");
        }
        if is_value && columns.len() > 1 {
            return error("`SELECT VALUE` has one value");
        }
        let is_all =
            matches!(&*columns, [all] if matches!(&**all, [star] if star.is_symbol(&["*"])));
        let is_merged =
            is_distinct || !groups.is_empty() || columns.iter().any(|column| has_aggregate(column));
        if is_merged && is_all {
            return error("`*` is not a column of a group; name the columns");
        }
        let selected = if is_all {
            Self::Documents
        } else if is_merged {
            Self::groups(columns, groups, is_distinct, is_value, span)?
        } else if is_value {
            Self::Value(rest.to_vec())
        } else {
            let columns = columns.into_iter().map(|column| named(column, span));
            let columns = columns.collect::<syn::Result<Vec<_>>>()?;
            refuse_twice(columns.iter().map(|(name, _)| name), span)?;
            Self::Columns(columns)
        };
        Ok((selected, top))
    }

    fn groups(
        columns: Vec<Vec<Token>>,
        mut keys: Vec<Vec<Token>>,
        is_distinct: bool,
        is_value: bool,
        span: Span,
    ) -> syn::Result<Self> {
        let columns = columns.into_iter().map(|column| {
            let (name, value) = if is_value {
                (None, column)
            } else {
                let (name, value) = named(column, span)?;
                (Some(name), value)
            };
            if let (Some((kind, argument)), 2) = (aggregate(&value), value.len()) {
                return Ok((name, Source::Aggregate(kind, argument.to_vec())));
            }
            if has_aggregate(&value) {
                return Err(Error::new(
                    span,
                    "an aggregate is a column of its own; compute with it in Rust",
                ));
            }
            let text = text_of(&value);
            let known = keys
                .iter()
                .position(|key| text_of(key).trim() == text.trim());
            match known {
                Some(key) => Ok((name, Source::Key(key))),
                None if is_distinct => {
                    keys.push(value);
                    Ok((name, Source::Key(keys.len() - 1)))
                }
                None => Err(Error::new(
                    span,
                    format!(
                        "column `{}` is neither an aggregate nor in `GROUP BY`",
                        text.trim()
                    ),
                )),
            }
        });
        let columns = columns.collect::<syn::Result<Vec<_>>>()?;
        refuse_twice(columns.iter().filter_map(|(name, _)| name.as_ref()), span)?;
        let has_aggregates = columns
            .iter()
            .any(|(_, source)| matches!(source, Source::Aggregate(..)));
        if is_distinct && has_aggregates {
            return Err(Error::new(
                span,
                "`DISTINCT` has no aggregates; use `GROUP BY`",
            ));
        }
        Ok(Self::Groups { columns, keys })
    }
}

/// Refuses two columns of one name, because a row would contain only one of them. The macro does not
/// know the names of paths.
fn refuse_twice<'a>(names: impl Iterator<Item = &'a Name>, span: Span) -> syn::Result<()> {
    let mut words: Vec<&str> = names.filter_map(Name::word).collect();
    words.sort_unstable();
    match words.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            let text = format!("two columns are called `{}`; add `AS name` to one", pair[0]);
            Err(Error::new(span, text))
        }
        None => Ok(()),
    }
}

/// Separates a column from its name.
fn named(mut column: Vec<Token>, span: Span) -> syn::Result<(Name, Vec<Token>)> {
    if let [.., word, name] = &*column
        && word.is("AS")
        && let Some(name) = name.word()
    {
        let name = Name::Word(name.to_owned());
        column.truncate(column.len() - 2);
        return Ok((name, column));
    }
    let name = match &*column {
        [single] => single.path()?.map(Name::OfPath),
        [.., dot, name] if dot.is_symbol(&["."]) && is_property(&column) => {
            name.word().map(|name| Name::Word(name.to_owned()))
        }
        _ => None,
    };
    match name {
        Some(name) => Ok((name, column)),
        None => Err(Error::new(
            span,
            format!(
                "column `{}` has no name; add `AS name`",
                text_of(&column).trim()
            ),
        )),
    }
}

/// Whether a column is a property of the document: `c.address.city`, `c.tags[0].name`.
fn is_property(column: &[Token]) -> bool {
    let is_chained = |token: &Token| {
        token.is_symbol(&["."])
            || token.word().is_some()
            || matches!(token.kind, Kind::Group('[', ..))
    };
    column.iter().all(is_chained)
}

/// Returns the text of tokens, for comparisons and messages.
pub(super) fn text_of(tokens: &[Token]) -> String {
    let texts = tokens.iter().map(|token| {
        let text = match &token.kind {
            Kind::Word(text) | Kind::Symbol(text) => text.clone(),
            Kind::Rust(text) => format!("{{{}}}", text.value().trim()),
            Kind::Group(open, inner, close) => format!("{open}{}{close}", text_of(inner).trim()),
        };
        if token.spaced {
            format!(" {text}")
        } else {
            text
        }
    });
    texts.collect()
}
