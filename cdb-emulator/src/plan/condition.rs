//! Conditions on one path in SQLite's words.

use std::collections::HashMap;

use crate::store::SqlValue;
use serde_json::Value;

use crate::sql::ast::{Binary, Expr};
use crate::sql::value::rank;
use crate::store::{json_rank, json_value};

/// Whole numbers from here on are not exact as doubles, which numbers of documents are.
const EXACT: f64 = 9_007_199_254_740_992.0;
/// By how much, relatively, SQLite may read a decimal fraction otherwise than we do.
const MARGIN: f64 = 1e-14;

/// A path that all rows have values of one type at.
#[derive(Clone, Debug)]
pub(super) struct Fixed {
    pub(super) path: String,
    /// Whether they all have the same value.
    pub(super) equal: bool,
}

/// A condition on one path in the words of the store.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) text: String,
    pub(super) parameters: Vec<SqlValue>,
    pub(super) path: String,
    /// What it fixes about the values that it lets through.
    pub(super) fixed: Option<Fixed>,
    /// Whether it lets through just what the query language would. Of numbers SQLite may have others than we.
    pub(super) exact: bool,
}

impl Condition {
    /// A comparison with a value, which only values of its type meet.
    fn new(path: String, symbol: &str, value: &Value) -> Option<Self> {
        let (place, column) = (json_rank(&path), json_value(&path));
        let mut condition = Self {
            text: format!("{place} = {}", rank(Some(value))),
            parameters: Vec::new(),
            fixed: Some(Fixed {
                equal: symbol == "=" && !is_vague(value),
                path: path.clone(),
            }),
            path,
            exact: match value {
                Value::Number(_) => false,
                Value::Null => !matches!(symbol, "<" | ">"),
                _ => true,
            },
        };
        match value {
            // The type says it all; that it has no value lets the store see that an index is narrowed by both.
            Value::Null => condition
                .text
                .push_str(&[" AND ", &column, " IS NULL"].concat()),
            Value::Number(number) if is_vague(value) => {
                let number = number.as_f64()?;
                let margin = number.abs() * MARGIN;
                if symbol != "<" && symbol != "<=" {
                    condition.bound(&format!("{column} >= ?"), SqlValue::Real(number - margin));
                }
                if symbol != ">" && symbol != ">=" {
                    condition.bound(&format!("{column} <= ?"), SqlValue::Real(number + margin));
                }
            }
            // Arrays and objects are equal or not by what is in them, and not ordered at all.
            _ => condition.bound(&format!("{column} {symbol} ?"), sql(value)?),
        }
        Some(condition)
    }

    /// A comparison with a value that all other values meet, those of other types too.
    fn unequal(path: String, value: &Value) -> Option<Self> {
        let (place, column) = (json_rank(&path), json_value(&path));
        let parameters = match value {
            Value::Null => Vec::new(),
            Value::String(_) | Value::Bool(_) => vec![sql(value)?],
            Value::Number(_) | Value::Array(_) | Value::Object(_) => return None,
        };
        let of_type = rank(Some(value));
        let text = if parameters.is_empty() {
            format!("{place} NOT IN (0, {of_type})")
        } else {
            format!("{place} > 0 AND ({place} <> {of_type} OR {column} <> ?)")
        };
        Some(Self {
            text,
            parameters,
            path,
            fixed: None,
            exact: true,
        })
    }

    /// The path that it is about.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    fn bound(&mut self, text: &str, value: SqlValue) {
        self.text.push_str(" AND ");
        self.text.push_str(text);
        self.parameters.push(value);
    }

    fn and(mut self, other: Self) -> Self {
        self.text = format!("{} AND {}", self.text, other.text);
        self.parameters.extend(other.parameters);
        self.exact &= other.exact;
        self
    }
}

/// Whether SQLite may have another number than we for the same text.
fn is_vague(value: &Value) -> bool {
    let number = value.as_f64();
    number.is_some_and(|number| number.fract() != 0.0 || number.abs() >= EXACT)
}

/// A value as SQLite extracts it from JSON.
fn sql(value: &Value) -> Option<SqlValue> {
    match value {
        Value::String(text) => Some(SqlValue::Text(text.clone())),
        Value::Bool(value) => Some(SqlValue::Integer((*value).into())),
        Value::Number(number) => number
            .as_i64()
            .map(SqlValue::Integer)
            .or_else(|| number.as_f64().map(SqlValue::Real)),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A condition that the store has words for.
pub(super) fn comparison(
    expr: &Expr,
    alias: &str,
    parameters: &HashMap<String, Value>,
) -> Option<Condition> {
    // The whole document is not a comparable value.
    let path = |expr: &Expr| expr.path(alias).filter(|path| !path.is_empty());
    let new = Condition::new;
    match expr {
        Expr::Binary(left, Binary::NotEqual, right) => {
            let (path, value) = match path(left) {
                Some(path) => (path, right),
                None => (path(right)?, left),
            };
            Condition::unequal(path, constant(value, parameters)?)
        }
        Expr::Binary(left, operator, right) => {
            let (symbol, turned) = match operator {
                Binary::Equal => ("=", "="),
                Binary::Less => ("<", ">"),
                Binary::LessOrEqual => ("<=", ">="),
                Binary::Greater => (">", "<"),
                Binary::GreaterOrEqual => (">=", "<="),
                _ => return None,
            };
            match path(left) {
                Some(path) => new(path, symbol, constant(right, parameters)?),
                None => new(path(right)?, turned, constant(left, parameters)?),
            }
        }
        Expr::Between(value, low, high) => {
            let path = path(value)?;
            let low = new(path.clone(), ">=", constant(low, parameters)?)?;
            Some(low.and(new(path, "<=", constant(high, parameters)?)?))
        }
        Expr::In(left, list) => one_of(path(left)?, list, parameters),
        _ => None,
    }
}

/// A list of values of one type.
fn one_of(path: String, list: &[Expr], parameters: &HashMap<String, Value>) -> Option<Condition> {
    let values: Option<Vec<&Value>> = list.iter().map(|item| constant(item, parameters)).collect();
    let values = values.filter(|values| !values.iter().any(|value| is_vague(value)))?;
    let place = rank(values.first().copied());
    if values.iter().any(|value| rank(Some(value)) != place) {
        return None;
    }
    let exact = values.iter().all(|value| !value.is_number());
    let bounds: Option<Vec<SqlValue>> = values.into_iter().map(sql).collect();
    let bounds = bounds?;
    let marks = vec!["?"; bounds.len()].join(", ");
    let (rank, value) = (json_rank(&path), json_value(&path));
    Some(Condition {
        text: format!("{rank} = {place} AND {value} IN ({marks})"),
        parameters: bounds,
        fixed: Some(Fixed {
            path: path.clone(),
            equal: false,
        }),
        path,
        exact,
    })
}

/// The value of an expression that has the same one for every document.
pub(super) fn constant<'a>(
    expr: &'a Expr,
    parameters: &'a HashMap<String, Value>,
) -> Option<&'a Value> {
    match expr {
        Expr::Literal(value) => Some(value),
        Expr::Parameter(name) => parameters.get(name),
        _ => None,
    }
}
