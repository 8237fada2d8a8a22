//! Which rows a query or a feed may see: one partition, a prefix of a hierarchical key, one physical partition or a part
//! of it, or all.
//!
//! The store restricts, not the reader of a page: a page that was filtered afterwards could be empty in the middle of
//! a feed, which its caller takes for the end.

use http::HeaderMap;
use rusqlite::types::Value as Sql;
use serde_json::{Value, json};

use crate::error::ServiceError;
use crate::route::header;
use crate::store::Container;
use crate::store::ranges::PhysicalRange;
use crate::{epk, rules};

/// The condition on rows of one partition key.
const ONE_KEY: &str = "pk = ?";

/// A condition on rows, with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RowScope {
    pub(super) condition: String,
    pub(super) parameters: Vec<Sql>,
}

/// What a request names: rows, and the physical partitions that they are in.
#[derive(Debug)]
pub(super) struct Reach<'a> {
    pub(super) rows: RowScope,
    pub(super) ranges: Vec<&'a PhysicalRange>,
    /// The part of the hash space that they are in.
    pub(super) bounds: (String, String),
    /// Whether it named neither a partition key nor a physical partition.
    pub(super) everything: bool,
}

impl<'a> Reach<'a> {
    /// Reads it from the headers.
    pub(super) fn of(headers: &HeaderMap, container: &'a Container) -> Result<Self, ServiceError> {
        let key = header(headers, "x-ms-documentdb-partitionkey");
        let range = header(headers, "x-ms-documentdb-partitionkeyrangeid");
        match (key, range) {
            (Some(_), Some(_)) => Err(ServiceError::bad_request(
                "A request names a partition key or a partition key range, not both.",
            )),
            (Some(key), None) => Self::key(container, rules::partition_key_header(key)?),
            (None, Some(id)) => {
                let range = container.range(id)?;
                // A part of it: how clients go on with a range that was merged, and with a prefix of a key.
                let min = header(headers, "x-ms-start-epk").unwrap_or_default();
                let max = header(headers, "x-ms-end-epk").unwrap_or(epk::MAX);
                let (min, max) = (min.max(&range.min), max.min(&range.max));
                Ok(Self {
                    rows: RowScope::between(min, max),
                    bounds: (min.to_owned(), max.to_owned()),
                    ranges: vec![range],
                    everything: false,
                })
            }
            (None, None) => Ok(Self {
                rows: RowScope {
                    condition: "1".to_owned(),
                    parameters: Vec::new(),
                },
                ranges: container.ranges.iter().collect(),
                bounds: (String::new(), epk::MAX.to_owned()),
                everything: true,
            }),
        }
    }

    /// The rows of a partition key, or of all that begin with it when levels are left out.
    fn key(container: &'a Container, key: Vec<Option<Value>>) -> Result<Self, ServiceError> {
        let levels = container.partition_key_paths().len();
        if key.is_empty() || key.len() > levels {
            return Err(ServiceError::bad_request(format!(
                "The partition key supplied in x-ms-partitionkey header has {} components, the collection defines \
                 {levels}.",
                key.len()
            )));
        }
        let epk = epk::effective_partition_key(&key);
        if key.len() < levels {
            // Behind every hexadecimal digit that can follow the prefix.
            let end = format!("{epk}G");
            let ranges = container.ranges.iter();
            return Ok(Self {
                ranges: ranges
                    .filter(|range| *range.min < *end && *epk < *range.max)
                    .collect(),
                rows: RowScope::between(&epk, &end),
                bounds: (epk, end),
                everything: false,
            });
        }
        let values = key
            .into_iter()
            .map(|value| value.unwrap_or_else(|| json!({})));
        Ok(Self {
            rows: RowScope {
                condition: ONE_KEY.to_owned(),
                parameters: vec![Sql::Text(Value::Array(values.collect()).to_string())],
            },
            ranges: container.range_of(&epk).into_iter().collect(),
            bounds: (epk.clone(), epk),
            everything: false,
        })
    }
}

impl RowScope {
    /// Whether all rows have one partition key.
    pub(super) fn is_one_key(&self) -> bool {
        self.condition == ONE_KEY
    }

    fn between(min: &str, max: &str) -> Self {
        if min.is_empty() && max == epk::MAX {
            // The only physical partition: without a condition the store is free to use any index.
            return Self {
                condition: "1".to_owned(),
                parameters: Vec::new(),
            };
        }
        Self {
            condition: "epk >= ? AND epk < ?".to_owned(),
            parameters: vec![Sql::Text(min.to_owned()), Sql::Text(max.to_owned())],
        }
    }
}
