//! Conditions as data: stored paths, JSON values, and how both are compared.

use serde_json::Value;

use super::fragment::Fragment;
use super::value_error::ValueError;

/// An untyped condition. Paths are stored paths, values are JSON.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Predicate {
    /// Always true.
    All,
    /// Never true.
    Never,
    /// The document is of this type.
    IsType(&'static str),
    /// `path op value`.
    Compare(String, Comparison, Value),
    /// `path IN (values)`.
    In(String, Vec<Value>),
    /// The value is null.
    IsNull(String),
    /// The path exists.
    IsDefined(String),
    /// The value is a string that matches this one; `bool` is whether case is ignored.
    Text(String, TextMatch, Value, bool),
    /// The value is an array with this element.
    ArrayContains(String, Value),
    /// The text contains words or phrases, compared by the rules of its language.
    FullText(String, FullTextMatch, Vec<Value>),
    /// A condition of `sql!`, and how an index serves it.
    Sql(Fragment, IndexUse),
    /// All conditions hold.
    And(Vec<Predicate>),
    /// At least one condition holds.
    Or(Vec<Predicate>),
    /// The condition does not hold. The service leaves what is undecided undecided.
    Not(Box<Predicate>),
    /// The condition, and the cases that it leaves undecided, for which it does not hold.
    Partial(Box<Predicate>, Vec<Predicate>),
    /// The condition has a value that cannot be serialized. A query or patch with it fails.
    Invalid(ValueError),
}

/// How an index serves a condition of `sql!`.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexUse {
    /// It finds one value.
    Equality,
    /// It finds the values that match.
    Range,
    /// All of its values are compared.
    Scan,
    /// It does not: the service checks the condition per document.
    Unserved,
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

/// How two strings are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextMatch {
    Equals,
    StartsWith,
    EndsWith,
    Contains,
}

impl TextMatch {
    pub(crate) fn function(self) -> &'static str {
        match self {
            Self::Equals => "STRINGEQUALS",
            Self::StartsWith => "STARTSWITH",
            Self::EndsWith => "ENDSWITH",
            Self::Contains => "CONTAINS",
        }
    }
}

/// Which words or phrases a text must contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FullTextMatch {
    All,
    Any,
}

impl FullTextMatch {
    pub(crate) fn function(self) -> &'static str {
        match self {
            Self::All => "FullTextContainsAll",
            Self::Any => "FullTextContainsAny",
        }
    }
}
