//! Which part of the hash space holds results: the partition keys that a query's condition allows.

use serde_json::{Value, json};

use super::Query;
use crate::epk;
use crate::sql::ast::{Binary, Expr, Select};

/// Most keys that a plan names one by one; with more the query goes everywhere.
const MOST: usize = 1024;

/// Ranges of effective partition keys, lowest first. None at all stands for everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ranges(Vec<Range>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    min: String,
    /// Inclusive when it is the same as the beginning.
    max: String,
}

impl Ranges {
    pub(super) fn are_one_point(&self) -> bool {
        matches!(&*self.0, [range] if range.min == range.max)
    }

    pub(super) fn to_json(&self) -> Value {
        let everything = [Range {
            min: String::new(),
            max: epk::MAX.to_owned(),
        }];
        let ranges = if self.0.is_empty() {
            &everything[..]
        } else {
            &*self.0
        };
        let ranges = ranges.iter().map(|range| {
            json!({
                "min": range.min, "max": range.max, "isMinInclusive": true,
                "isMaxInclusive": range.min == range.max,
            })
        });
        ranges.collect()
    }
}

/// The ranges of a query.
pub(super) fn of(select: &Select, query: Query<'_>) -> Ranges {
    // The rows of a sub-query have properties of their own, whatever these are called.
    let filter = select.filter.as_ref().filter(|_| select.derived.is_none());
    let keys = filter.and_then(|filter| keys(filter, &select.alias, query));
    let mut ranges: Vec<Range> = keys
        .unwrap_or_default()
        .iter()
        .map(|key| {
            let min = epk::effective_partition_key(key);
            let max = if key.len() < query.key.len() {
                format!("{min}{}", epk::MAX)
            } else {
                min.clone()
            };
            Range { min, max }
        })
        .collect();
    ranges.sort();
    ranges.dedup();
    Ranges(ranges)
}

type Key = Vec<Option<Value>>;

/// All keys, or beginnings of keys, that a condition lets through; none when it does not say.
fn keys(condition: &Expr, alias: &str, query: Query<'_>) -> Option<Vec<Key>> {
    if let Expr::Binary(left, Binary::Or, right) = condition {
        let mut both = keys(left, alias, query)?;
        both.extend(keys(right, alias, query)?);
        return (both.len() <= MOST).then_some(both);
    }
    let mut found: Vec<Key> = vec![Vec::new()];
    for path in query.key {
        let Some(values) = values(condition, &Level { alias, path, query }) else {
            break;
        };
        if found.len().saturating_mul(values.len()) > MOST {
            return None;
        }
        let longer = found.iter().flat_map(|key| {
            values.iter().map(|value| {
                let mut key = key.clone();
                key.push(Some(value.clone()));
                key
            })
        });
        found = longer.collect();
    }
    found.retain(|key| !key.is_empty());
    (!found.is_empty()).then_some(found)
}

struct Level<'a> {
    alias: &'a str,
    path: &'a str,
    query: Query<'a>,
}

/// The values of one level of the key that a condition lets through.
fn values(condition: &Expr, level: &Level<'_>) -> Option<Vec<Value>> {
    let is_key = |expr: &Expr| expr.path(level.alias).as_deref() == Some(level.path);
    match condition {
        Expr::Binary(left, Binary::And, right) => match (values(left, level), values(right, level))
        {
            (Some(left), Some(right)) => Some(
                left.into_iter()
                    .filter(|value| right.contains(value))
                    .collect(),
            ),
            (left, right) => left.or(right),
        },
        Expr::Binary(left, Binary::Or, right) => {
            let mut both = values(left, level)?;
            both.extend(values(right, level)?);
            Some(both)
        }
        Expr::Binary(left, Binary::Equal, right) if is_key(left) => {
            Some(vec![constant(right, level)?])
        }
        Expr::Binary(left, Binary::Equal, right) if is_key(right) => {
            Some(vec![constant(left, level)?])
        }
        Expr::In(left, list) if is_key(left) => {
            list.iter().map(|item| constant(item, level)).collect()
        }
        _ => None,
    }
}

/// A value that a partition key can have.
fn constant(expr: &Expr, level: &Level<'_>) -> Option<Value> {
    let value = match expr {
        Expr::Literal(value) => value,
        Expr::Parameter(name) => level.query.parameters.get(name)?,
        _ => return None,
    };
    let scalar = !value.is_array() && !value.is_object();
    scalar.then(|| crate::rules::component(value))
}
