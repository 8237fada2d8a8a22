//! The syntax tree of a query.
//!
//! The parser resolves names, so every name in a tree is bound. `Display` prints a tree as text
//! that parses to the same tree.

use std::sync::Arc;

use serde_json::Value;

use super::function::{Aggregate, Function, NamedFunction, find};

/// `SELECT … FROM … WHERE … GROUP BY … ORDER BY … OFFSET … LIMIT …`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Select {
    pub(crate) distinct: bool,
    pub(crate) top: Option<Expr>,
    pub(crate) projection: Projection,
    /// The name of the document; empty in a query without `FROM`, and in sub-queries, which use the
    /// names of the outer query.
    pub(crate) alias: String,
    /// `FROM (SELECT …) alias`: the name is bound to a row of that query instead of a document.
    pub(crate) derived: Option<Box<Select>>,
    pub(crate) joins: Vec<Join>,
    pub(crate) filter: Option<Expr>,
    pub(crate) group_by: Vec<Expr>,
    /// Whether the sort is `ORDER BY RANK`.
    pub(crate) rank: bool,
    pub(crate) order_by: Vec<OrderItem>,
    /// Whether no index gives the order: a sort by vectors or by a computed property.
    pub(crate) unindexed_sort: bool,
    pub(crate) offset: Option<Expr>,
    pub(crate) limit: Option<Expr>,
}

/// The projection of each row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Projection {
    Star,
    Value(Expr),
    List(Vec<(String, Expr)>),
}

/// A name that the FROM clause binds, and its source.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Join {
    pub(crate) alias: String,
    pub(crate) source: Source,
}

/// The source of a name in FROM.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    /// `FROM c.address a`: one value; no row if it is undefined.
    Value(Expr),
    /// `t IN c.tags`: the elements of an array.
    Elements(Expr),
    /// `(SELECT …) t`: the rows of a sub-query.
    Rows(Box<Select>),
    /// `t IN (SELECT …)`: the elements of the rows that are arrays.
    ElementsOfRows(Box<Select>),
}

/// A sort key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OrderItem {
    pub(crate) expr: Expr,
    pub(crate) descending: bool,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Literal(Value),
    Undefined,
    Parameter(String),
    /// A name bound by FROM.
    Name(String),
    /// `a.b`, `a["b"]`, `a[0]`.
    Member(Box<Expr>, Box<Expr>),
    Unary(Unary, Box<Expr>),
    Binary(Box<Expr>, Binary, Box<Expr>),
    /// The list is shared: planning copies conditions, and lists can be long.
    In(Box<Expr>, Arc<[Expr]>),
    Between(Box<Expr>, Box<Expr>, Box<Expr>),
    Like(Box<Expr>, Box<Expr>, Option<char>),
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    Call(&'static Function, Vec<Expr>),
    Aggregate(Aggregate, Box<Expr>),
    Object(Vec<(String, Expr)>),
    Array(Vec<Expr>),
    /// `EXISTS (SELECT …)`.
    Exists(Box<Select>),
    /// `ARRAY (SELECT …)`.
    Collect(Box<Select>),
    /// `(SELECT …)`: its only row.
    Scalar(Box<Select>),
    /// `FIRST(SELECT …)` and `LAST(SELECT …)`: one of its rows.
    Pick(Pick, Box<Select>),
}

/// Which row of a sub-query is its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    First,
    Last,
}

impl Pick {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::First => "FIRST",
            Self::Last => "LAST",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Not,
    Minus,
    Plus,
    BitNot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Coalesce,
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    BitOr,
    BitXor,
    BitAnd,
    ShiftLeft,
    ShiftRight,
    ShiftRightZeroFill,
    Concat,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// Every operator with its symbol and its precedence; 0 is the lowest. The order is that of the SQL
/// parser in Microsoft's Rust driver.
pub(super) const OPERATORS: [(Binary, &str, usize); 21] = [
    (Binary::Coalesce, "??", 0),
    (Binary::Or, "OR", 1),
    (Binary::And, "AND", 2),
    (Binary::Equal, "=", COMPARISON),
    (Binary::NotEqual, "!=", COMPARISON),
    (Binary::Less, "<", COMPARISON),
    (Binary::LessOrEqual, "<=", COMPARISON),
    (Binary::Greater, ">", COMPARISON),
    (Binary::GreaterOrEqual, ">=", COMPARISON),
    (Binary::BitOr, "|", 4),
    (Binary::BitXor, "^", 5),
    (Binary::BitAnd, "&", 6),
    (Binary::ShiftLeft, "<<", 7),
    (Binary::ShiftRight, ">>", 7),
    (Binary::ShiftRightZeroFill, ">>>", 7),
    (Binary::Concat, "||", 8),
    (Binary::Add, "+", 9),
    (Binary::Subtract, "-", 9),
    (Binary::Multiply, "*", 10),
    (Binary::Divide, "/", 10),
    (Binary::Remainder, "%", 10),
];

/// The precedence of comparisons, `IN`, `BETWEEN` and `LIKE`.
pub(super) const COMPARISON: usize = 3;

impl Binary {
    fn entry(self) -> (&'static str, usize) {
        let known = OPERATORS.into_iter().find(|(known, ..)| *known == self);
        known.map_or(("", 0), |(_, symbol, level)| (symbol, level))
    }

    /// Returns the symbol or keyword.
    pub(super) fn symbol(self) -> &'static str {
        self.entry().0
    }

    /// Returns the precedence.
    pub(super) fn level(self) -> usize {
        self.entry().1
    }

    /// Returns whether this is `AND` or `OR`.
    pub(super) fn is_logical(self) -> bool {
        matches!(self, Self::And | Self::Or)
    }
}

impl Expr {
    /// Joins the operands of `AND` or `OR` in a tree of logarithmic depth. Operands that are chains
    /// of the same operator become part of the chain, so that equal chains are equal trees.
    pub(super) fn balanced(operands: Vec<Self>, operator: Binary) -> Self {
        let mut flat = Vec::with_capacity(operands.len());
        for operand in operands {
            operand.flatten(operator, &mut flat);
        }
        join_halves(flat, operator)
    }

    /// Adds the operands of a chain of `operator`, or the expression itself.
    fn flatten(self, operator: Binary, operands: &mut Vec<Self>) {
        match self {
            Self::Binary(left, found, right) if found == operator => {
                left.flatten(operator, operands);
                right.flatten(operator, operands);
            }
            other => operands.push(other),
        }
    }

    /// Returns whether the expression contains an aggregate. Aggregates of sub-queries do not
    /// count.
    pub(crate) fn has_aggregate(&self) -> bool {
        match self {
            Self::Aggregate(..) => true,
            Self::Call(_, items) | Self::Array(items) => items.iter().any(Self::has_aggregate),
            Self::Member(a, b) | Self::Binary(a, _, b) | Self::Like(a, b, _) => {
                a.has_aggregate() || b.has_aggregate()
            }
            Self::Unary(_, a) => a.has_aggregate(),
            Self::In(a, list) => a.has_aggregate() || list.iter().any(Self::has_aggregate),
            Self::Between(a, b, c) | Self::Conditional(a, b, c) => {
                a.has_aggregate() || b.has_aggregate() || c.has_aggregate()
            }
            Self::Object(fields) => fields.iter().any(|(_, value)| value.has_aggregate()),
            Self::Literal(_)
            | Self::Undefined
            | Self::Parameter(_)
            | Self::Name(_)
            | Self::Exists(_)
            | Self::Collect(_)
            | Self::Scalar(_)
            | Self::Pick(..) => false,
        }
    }

    /// Returns whether the expression has one value per group: it consists of grouping expressions,
    /// aggregates and constants.
    pub(crate) fn is_grouped(&self, groups: &[Self]) -> bool {
        let all = |items: &[Self]| items.iter().all(|item| item.is_grouped(groups));
        groups.contains(self)
            || match self {
                Self::Name(_) => false,
                Self::Call(_, items) | Self::Array(items) => all(items),
                Self::Member(a, b) | Self::Binary(a, _, b) | Self::Like(a, b, _) => {
                    a.is_grouped(groups) && b.is_grouped(groups)
                }
                Self::Unary(_, a) => a.is_grouped(groups),
                Self::In(a, list) => a.is_grouped(groups) && all(list),
                Self::Between(a, b, c) | Self::Conditional(a, b, c) => {
                    [a, b, c].into_iter().all(|part| part.is_grouped(groups))
                }
                Self::Object(fields) => fields.iter().all(|(_, value)| value.is_grouped(groups)),
                Self::Aggregate(..)
                | Self::Literal(_)
                | Self::Undefined
                | Self::Parameter(_)
                | Self::Exists(_)
                | Self::Collect(_)
                | Self::Scalar(_)
                | Self::Pick(..) => true,
            }
    }

    /// Returns the name of the expression without an alias; `None` if it has none.
    pub(super) fn inferred_name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Member(_, key) => match &**key {
                Self::Literal(Value::String(name)) => Some(name),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the stored path `/a/b` of the expression if it is a plain path of `alias`.
    ///
    /// Names with a slash or with characters that JSON escapes have no path: they are evaluated
    /// without an index.
    pub(crate) fn path(&self, alias: &str) -> Option<String> {
        match self {
            Self::Name(name) if name == alias => Some(String::new()),
            Self::Member(parent, key) => {
                let parent = parent.path(alias)?;
                match &**key {
                    Self::Literal(Value::String(name)) if is_plain(name) => {
                        Some(format!("{parent}/{name}"))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// Returns a call of a scalar function by its name in upper case; `None` for an unknown function.
pub(crate) fn call(name: &str, arguments: Vec<Expr>) -> Option<Expr> {
    match find(name) {
        Ok(NamedFunction::Scalar(function)) => Some(Expr::Call(function, arguments)),
        _ => None,
    }
}

fn join_halves(mut operands: Vec<Expr>, operator: Binary) -> Expr {
    let right = operands.split_off(operands.len().div_ceil(2));
    match operands.pop() {
        None => Expr::Undefined,
        Some(only) if right.is_empty() => only,
        Some(last) => {
            operands.push(last);
            let (left, right) = (
                join_halves(operands, operator),
                join_halves(right, operator),
            );
            Expr::Binary(left.into(), operator, right.into())
        }
    }
}

/// Returns whether a stored path, and its form in SQLite, can contain this property name.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| matches!(c, '/' | '"' | '\\') || c.is_control())
}

impl Select {
    /// Returns whether the query aggregates rows.
    pub(crate) fn aggregates(&self) -> bool {
        match &self.projection {
            Projection::Star => false,
            Projection::Value(expr) => expr.has_aggregate(),
            Projection::List(fields) => fields.iter().any(|(_, expr)| expr.has_aggregate()),
        }
    }
}
