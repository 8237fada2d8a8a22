//! Which rows a query or a feed may see: one partition, a prefix of a hierarchical key, one physical partition, or all.
//!
//! The store restricts, not the reader of a page: a page that was filtered afterwards could be empty in the middle of
//! a feed, which its caller takes for the end.

use rusqlite::types::Value as Sql;
use serde_json::{Value, json};

use crate::epk;
use crate::store::Container;
use crate::store::catalog::PhysicalRange;

/// A condition on rows, with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RowScope {
    pub(super) condition: String,
    pub(super) parameters: Vec<Sql>,
}

impl RowScope {
    /// Every row.
    pub(super) fn everything() -> Self {
        Self {
            condition: "1".to_owned(),
            parameters: Vec::new(),
        }
    }

    /// The rows of a physical partition.
    pub(super) fn range(range: &PhysicalRange) -> Self {
        Self::between(&range.min, &range.max)
    }

    /// The rows of a partition key, or of all that begin with it when levels are left out.
    pub(super) fn key(container: &Container, key: Vec<Option<Value>>) -> Self {
        if key.len() < container.partition_key_paths().len() {
            let epk = epk::effective_partition_key(&key);
            // Behind every hexadecimal digit that can follow the prefix.
            return Self::between(&epk, &format!("{epk}G"));
        }
        let values = key
            .into_iter()
            .map(|value| value.unwrap_or_else(|| json!({})));
        Self {
            condition: "pk = ?".to_owned(),
            parameters: vec![Sql::Text(Value::Array(values.collect()).to_string())],
        }
    }

    fn between(min: &str, max: &str) -> Self {
        Self {
            condition: "epk >= ? AND epk < ?".to_owned(),
            parameters: vec![Sql::Text(min.to_owned()), Sql::Text(max.to_owned())],
        }
    }
}
