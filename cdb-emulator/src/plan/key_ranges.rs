//! The ranges of effective partition keys with results of a query, from its conditions on the
//! partition key.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::sql::ast::{Binary, Expr, Select};
use crate::store::PhysicalRange;
use crate::store::partitions::epk::{self, Version};

/// Maximum number of keys of a plan. A query with more keys goes to all physical partitions.
const MOST: usize = 1024;

/// Ranges of effective partition keys, lowest first. An empty list stands for the whole hash space.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct KeyRanges(Vec<Range>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    min: String,
    /// Inclusive if it equals `min`.
    max: String,
}

impl KeyRanges {
    /// Finds the ranges of a query of a container with these partition key paths.
    pub(crate) fn of(
        select: &Select,
        parameters: &HashMap<String, Value>,
        paths: &[String],
        version: Version,
    ) -> Self {
        // A property of a derived row is not the document's, even if the two have the same name.
        let filter = select.filter.as_ref().filter(|_| select.derived.is_none());
        let conditions = KeyConditions {
            alias: &select.alias,
            parameters,
            paths,
        };
        let keys = filter.and_then(|filter| conditions.keys(filter));
        let range = |key: &Key| {
            let min = version.effective_partition_key(key);
            let max = if key.len() < paths.len() {
                format!("{min}{}", epk::MAX)
            } else {
                min.clone()
            };
            Range { min, max }
        };
        let mut ranges: Vec<Range> = keys.iter().flatten().map(range).collect();
        ranges.sort();
        ranges.dedup();
        Self(ranges)
    }

    /// Returns whether the query can have results in this physical partition.
    pub(crate) fn meet(&self, partition: &PhysicalRange) -> bool {
        let meets = |range: &Range| range.min < partition.max && partition.min <= range.max;
        self.0.is_empty() || self.0.iter().any(meets)
    }

    pub(crate) fn are_one_point(&self) -> bool {
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

type Key = Vec<Option<Value>>;

/// Reads the partition keys that the conditions of a query let through.
struct KeyConditions<'a> {
    alias: &'a str,
    parameters: &'a HashMap<String, Value>,
    /// The paths of the partition key.
    paths: &'a [String],
}

impl KeyConditions<'_> {
    /// Returns all keys, or prefixes of keys, that a condition lets through; `None` when it
    /// restricts no key.
    fn keys(&self, condition: &Expr) -> Option<Vec<Key>> {
        if let Expr::Binary(left, Binary::Or, right) = condition {
            let mut both = self.keys(left)?;
            both.extend(self.keys(right)?);
            return (both.len() <= MOST).then_some(both);
        }
        let mut found: Vec<Key> = vec![Vec::new()];
        for path in self.paths {
            let Some(values) = self.values(condition, path) else {
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

    /// Returns the values at one path of the key that a condition lets through.
    fn values(&self, condition: &Expr, path: &str) -> Option<Vec<Value>> {
        let is_key = |expr: &Expr| expr.path(self.alias).as_deref() == Some(path);
        match condition {
            Expr::Binary(left, Binary::And, right) => {
                match (self.values(left, path), self.values(right, path)) {
                    (Some(mut left), Some(right)) => {
                        left.retain(|value| right.contains(value));
                        Some(left)
                    }
                    (left, right) => left.or(right),
                }
            }
            Expr::Binary(left, Binary::Or, right) => {
                let mut both = self.values(left, path)?;
                both.extend(self.values(right, path)?);
                Some(both)
            }
            Expr::Binary(left, Binary::Equal, right) if is_key(left) => {
                Some(vec![self.constant(right)?])
            }
            Expr::Binary(left, Binary::Equal, right) if is_key(right) => {
                Some(vec![self.constant(left)?])
            }
            Expr::In(left, list) if is_key(left) => {
                list.iter().map(|item| self.constant(item)).collect()
            }
            _ => None,
        }
    }

    /// Returns a constant's value if a partition key can have it.
    fn constant(&self, expr: &Expr) -> Option<Value> {
        let value = match expr {
            Expr::Literal(value) => value,
            Expr::Parameter(name) => self.parameters.get(name)?,
            _ => return None,
        };
        let scalar = !value.is_array() && !value.is_object();
        scalar.then(|| epk::normalized(value))
    }
}
