//! The tree of a query.

use serde_json::Value;

/// `SELECT … FROM … WHERE … GROUP BY … ORDER BY … OFFSET … LIMIT …`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Select {
    pub(crate) distinct: bool,
    pub(crate) top: Option<Expr>,
    pub(crate) projection: Projection,
    /// The name that stands for the document.
    pub(crate) alias: String,
    pub(crate) joins: Vec<Join>,
    pub(crate) filter: Option<Expr>,
    pub(crate) group_by: Vec<Expr>,
    pub(crate) order_by: Vec<OrderItem>,
    pub(crate) offset: Option<Expr>,
    pub(crate) limit: Option<Expr>,
}

/// What is returned of each row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Projection {
    Star,
    Value(Expr),
    List(Vec<(String, Expr)>),
}

/// `JOIN alias IN expr`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Join {
    pub(crate) alias: String,
    pub(crate) source: Expr,
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
    /// An alias, or a property of the only one.
    Name(String),
    /// `a.b`, `a["b"]`, `a[0]`.
    Member(Box<Expr>, Box<Expr>),
    Unary(Unary, Box<Expr>),
    Binary(Box<Expr>, Binary, Box<Expr>),
    In(Box<Expr>, Vec<Expr>),
    Between(Box<Expr>, Box<Expr>, Box<Expr>),
    Like(Box<Expr>, Box<Expr>),
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    Call(String, Vec<Expr>),
    Object(Vec<(String, Expr)>),
    Array(Vec<Expr>),
    /// `EXISTS (SELECT …)`.
    Exists(Box<Select>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Not,
    Minus,
    Plus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Concat,
    Coalesce,
}

const AGGREGATES: [&str; 5] = ["COUNT", "SUM", "MIN", "MAX", "AVG"];

impl Expr {
    /// Whether the name is one of the aggregate functions.
    pub(crate) fn is_aggregate_name(name: &str) -> bool {
        AGGREGATES.contains(&name)
    }

    /// Whether an aggregate stands anywhere in it.
    pub(crate) fn has_aggregate(&self) -> bool {
        match self {
            Self::Call(name, arguments) => {
                Self::is_aggregate_name(name) || arguments.iter().any(Self::has_aggregate)
            }
            Self::Member(a, b) | Self::Binary(a, _, b) | Self::Like(a, b) => {
                a.has_aggregate() || b.has_aggregate()
            }
            Self::Unary(_, a) => a.has_aggregate(),
            Self::In(a, list) => a.has_aggregate() || list.iter().any(Self::has_aggregate),
            Self::Between(a, b, c) | Self::Conditional(a, b, c) => {
                a.has_aggregate() || b.has_aggregate() || c.has_aggregate()
            }
            Self::Object(fields) => fields.iter().any(|(_, value)| value.has_aggregate()),
            Self::Array(items) => items.iter().any(Self::has_aggregate),
            Self::Literal(_)
            | Self::Undefined
            | Self::Parameter(_)
            | Self::Name(_)
            | Self::Exists(_) => false,
        }
    }

    /// The stored path that the expression names, `/a/b`, when it is a plain path of `alias`.
    ///
    /// Names that a path cannot spell (a slash in them, or what JSON escapes) have none: they are evaluated, not looked
    /// up in an index.
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

/// Whether a property's name can stand in a stored path, and in SQLite's form of one.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| matches!(c, '/' | '"' | '\\') || c.is_control())
}

impl Select {
    /// Whether rows are folded into aggregates.
    pub(crate) fn aggregates(&self) -> bool {
        match &self.projection {
            Projection::Star => false,
            Projection::Value(expr) => expr.has_aggregate(),
            Projection::List(fields) => fields.iter().any(|(_, expr)| expr.has_aggregate()),
        }
    }
}
