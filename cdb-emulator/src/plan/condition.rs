//! Conditions on one path as SQL.

use std::collections::HashMap;

use crate::store::{PathKeys, Policy, SqlValue, sql_value};
use serde_json::Value;

use crate::sql::ast::{Binary, Expr};
use crate::sql::value::rank;

/// The first whole number that a double does not represent exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;
/// The relative difference between SQLite's value of a decimal fraction and ours.
const MARGIN: f64 = 1e-14;

/// A path whose values all have the same type, by the filter.
#[derive(Clone, Debug)]
pub(super) struct Fixed {
    pub(super) path: String,
    /// Whether they are all equal.
    pub(super) equal: bool,
    /// The place of the condition in the filter.
    pub(super) place: usize,
}

/// A condition on one path as SQL.
#[derive(Debug)]
pub(super) struct SqlCondition {
    pub(super) text: String,
    pub(super) parameters: Vec<SqlValue>,
    /// The type or value that the condition requires of its path.
    pub(super) fixed: Option<Fixed>,
    /// Whether the SQL is equivalent to the condition. Comparisons of numbers are not, because
    /// SQLite can read a number differently.
    pub(super) exact: bool,
}

impl SqlCondition {
    /// Returns a comparison with a value. Only values of the same type can meet it.
    fn new(keys: PathKeys, symbol: &str, value: &Value) -> Option<Self> {
        let (path, column) = (keys.path, keys.value);
        let mut condition = Self {
            text: format!("{} = {}", keys.rank, rank(Some(value))),
            parameters: Vec::new(),
            fixed: Some(Fixed {
                equal: symbol == "=" && !is_inexact(value),
                path,
                place: 0,
            }),
            exact: match value {
                Value::Number(_) => false,
                Value::Null => !matches!(symbol, "<" | ">"),
                _ => true,
            },
        };
        match value {
            // The type is sufficient; `IS NULL` lets SQLite use both columns of the index.
            Value::Null => condition
                .text
                .push_str(&[" AND ", &column, " IS NULL"].concat()),
            Value::Number(number) if is_inexact(value) => {
                let number = number.as_f64()?;
                let margin = number.abs() * MARGIN;
                if symbol != "<" && symbol != "<=" {
                    condition.bound(&format!("{column} >= ?"), SqlValue::Real(number - margin));
                }
                if symbol != ">" && symbol != ">=" {
                    condition.bound(&format!("{column} <= ?"), SqlValue::Real(number + margin));
                }
            }
            // Arrays and objects are compared by their content and have no order: `sql_value` returns
            // `None`.
            _ => condition.bound(&format!("{column} {symbol} ?"), sql_value(value)?),
        }
        Some(condition)
    }

    /// Returns the condition that a defined value differs from `value`. Values of other types meet
    /// it.
    fn unequal(keys: PathKeys, value: &Value) -> Option<Self> {
        let (place, column) = (keys.rank, keys.value);
        let parameters = match value {
            Value::Null => Vec::new(),
            Value::String(_) | Value::Bool(_) => vec![sql_value(value)?],
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
            fixed: None,
            exact: true,
        })
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

    fn or(mut self, other: Self) -> Self {
        self.text = format!("({} OR {})", self.text, other.text);
        self.parameters.extend(other.parameters);
        self.exact &= other.exact;
        self.fixed = None;
        self
    }

    /// Adds a condition that may be unknown. Without it, too many rows meet the condition.
    fn and_maybe(left: Option<Self>, right: Option<Self>) -> Option<Self> {
        match (left, right) {
            (Some(left), Some(right)) => Some(left.and(right)),
            (known, None) | (None, known) => known.map(|known| Self {
                exact: false,
                ..known
            }),
        }
    }
}

/// Returns whether SQLite can read a number differently.
fn is_inexact(value: &Value) -> bool {
    let number = value.as_f64();
    number.is_some_and(|number| number.fract() != 0.0 || number.abs() >= EXACT)
}

/// Returns a condition as SQL; `None` if the store cannot evaluate it.
pub(super) fn comparison(
    expr: &Expr,
    alias: &str,
    parameters: &HashMap<String, Value>,
    policy: &Policy,
) -> Option<SqlCondition> {
    // The whole document is not a comparable value.
    let path = |expr: &Expr| {
        let path = expr.path(alias).filter(|path| !path.is_empty())?;
        Some(policy.path_keys(path))
    };
    let new = SqlCondition::new;
    let known = |expr: &Expr| comparison(expr, alias, parameters, policy);
    match expr {
        Expr::Binary(left, Binary::Or, right) => Some(known(left)?.or(known(right)?)),
        // Part of an `OR`: the conditions of the whole filter are planned one by one.
        Expr::Binary(left, Binary::And, right) => {
            SqlCondition::and_maybe(known(left), known(right))
        }
        Expr::Binary(left, Binary::NotEqual, right) => {
            let (path, value) = match path(left) {
                Some(path) => (path, right),
                None => (path(right)?, left),
            };
            SqlCondition::unequal(path, constant(value, parameters)?)
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

/// Returns the condition that a path has one of several values of one type.
fn one_of(
    keys: PathKeys,
    list: &[Expr],
    parameters: &HashMap<String, Value>,
) -> Option<SqlCondition> {
    let values: Option<Vec<&Value>> = list.iter().map(|item| constant(item, parameters)).collect();
    let values = values.filter(|values| !values.iter().any(|value| is_inexact(value)))?;
    let place = rank(values.first().copied());
    if values.iter().any(|value| rank(Some(value)) != place) {
        return None;
    }
    let exact = values.iter().all(|value| !value.is_number());
    let bounds: Option<Vec<SqlValue>> = values.into_iter().map(sql_value).collect();
    let bounds = bounds?;
    let marks = vec!["?"; bounds.len()].join(", ");
    let PathKeys { path, rank, value } = keys;
    Some(SqlCondition {
        text: format!("{rank} = {place} AND {value} IN ({marks})"),
        parameters: bounds,
        fixed: Some(Fixed {
            path,
            equal: false,
            place: 0,
        }),
        exact,
    })
}

/// Returns the value of a literal or a parameter.
fn constant<'a>(expr: &'a Expr, parameters: &'a HashMap<String, Value>) -> Option<&'a Value> {
    match expr {
        Expr::Literal(value) => Some(value),
        Expr::Parameter(name) => parameters.get(name),
        _ => None,
    }
}
