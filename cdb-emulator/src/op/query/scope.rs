//! The scope of a query or a feed: a partition key, a physical partition or a part of it, or the
//! whole container. A prefix of a hierarchical key is a part of a physical partition.
//!
//! The store applies the scope. A filter after the page was read could leave an empty page in the
//! middle of a feed, which the client would take for its end.

use http::HeaderMap;
use serde_json::{Value, json};

use super::body::QueryBody;
use super::continuation::{Binding, EpkBounds};
use crate::account::Service;
use crate::op::items::item::key_of;
use crate::op::target::container_by_name;
use crate::plan::KeyRanges;
use crate::protocol::{OperationKind, Request, ServiceError, header};
use crate::store::partitions::epk;
use crate::store::{Container, PhysicalRange, RowCondition, SqlValue};

/// The condition of a single partition key.
const ONE_KEY: &str = "pk = ?";

/// Returns the ids of the physical partitions that a data request reaches. A partition that the
/// request names is included even if it was split.
pub(crate) fn reached_partitions(
    service: &Service,
    request: &Request,
) -> Result<Vec<String>, ServiceError> {
    let connection = service.store.read()?;
    let container = container_by_name(&connection, request)?;
    if let Some(id) = header(&request.headers, "x-ms-documentdb-partitionkeyrangeid") {
        return Ok(vec![id.to_owned()]);
    }
    let mut scope = RequestScope::of(&request.headers, &container)?;
    if scope.everything && request.kind == OperationKind::Query {
        let body: QueryBody = request.json()?;
        let keys = body.key_ranges(&*service.parsed.parse(&body.query)?, &container);
        scope = scope.of_page(request, &container, &keys)?;
    }
    let ids = scope.ranges.iter().map(|range| range.id.clone());
    Ok(ids.collect())
}

/// The rows that a request reads, and their physical partitions.
#[derive(Debug)]
pub(in crate::op) struct RequestScope<'a> {
    pub(in crate::op) rows: RowCondition,
    pub(in crate::op) ranges: Vec<&'a PhysicalRange>,
    pub(in crate::op) bounds: EpkBounds,
    /// Whether the request names neither a partition key nor a physical partition.
    pub(in crate::op) everything: bool,
}

impl<'a> RequestScope<'a> {
    /// Reads the scope from the headers.
    pub(in crate::op) fn of(
        headers: &HeaderMap,
        container: &'a Container,
    ) -> Result<Self, ServiceError> {
        let key = header(headers, "x-ms-documentdb-partitionkey");
        let range = header(headers, "x-ms-documentdb-partitionkeyrangeid");
        match (key, range) {
            (Some(key), None) => Ok(Self::key(container, key_of(key, container)?)),
            (Some(key), Some(_)) if key_of(key, container).is_ok() => {
                Err(ServiceError::bad_request(
                    "A request names a partition key or a partition key range, but not both.",
                ))
            }
            // The prefix of a key beside a range has no effect (azure-sdk-for-rust#4680).
            (_, Some(id)) => {
                let range = container.range(id)?;
                let (min, max) = part(headers)?;
                let (min, max) = (min.max(&range.min), max.min(&range.max));
                Ok(Self {
                    rows: RowCondition::between(min, max),
                    bounds: EpkBounds::new(min, max),
                    ranges: vec![range],
                    everything: false,
                })
            }
            (None, None) => Ok(Self {
                rows: RowCondition {
                    condition: "1".to_owned(),
                    parameters: Vec::new(),
                },
                ranges: container.ranges.iter().collect(),
                bounds: EpkBounds::new("", epk::MAX),
                everything: true,
            }),
        }
    }

    /// Returns the scope of a page of a query without a partition key or a physical partition. The
    /// gateway visits the partitions that can have results one after another, each in a page of its
    /// own, and returns empty pages too (.NET client,
    /// `DefaultDocumentQueryExecutionContext.ExecuteOnceAsync`, with the `PartitionRoutingHelper` of
    /// the gateway).
    pub(in crate::op) fn of_page(
        self,
        request: &Request,
        container: &'a Container,
        keys: &KeyRanges,
    ) -> Result<Self, ServiceError> {
        let begun = Binding::bounds(request)?;
        let Some(bounds) = begun.or_else(|| next_partition("", container, keys)) else {
            return Ok(self);
        };
        let mut ranges = self.ranges;
        ranges.retain(|range| range.min < bounds.max && bounds.min < range.max);
        Ok(Self {
            rows: RowCondition::between(&bounds.min, &bounds.max),
            ranges,
            bounds,
            everything: true,
        })
    }

    /// Returns the bounds of the partition that the gateway visits after this one.
    pub(in crate::op) fn next(&self, container: &Container, keys: &KeyRanges) -> Option<EpkBounds> {
        self.everything
            .then(|| next_partition(&self.bounds.max, container, keys))?
    }

    /// Returns the scope of a partition key.
    fn key(container: &'a Container, key: Vec<Option<Value>>) -> Self {
        let epk = container.epk(&key);
        let values = key
            .into_iter()
            .map(|value| value.unwrap_or_else(|| json!({})));
        Self {
            rows: RowCondition {
                condition: ONE_KEY.to_owned(),
                parameters: vec![SqlValue::Text(Value::Array(values.collect()).to_string())],
            },
            ranges: container.range_of(&epk).into_iter().collect(),
            bounds: EpkBounds::new(epk.clone(), epk),
            everything: false,
        }
    }
}

/// Returns the part of a physical partition that a request reads: clients send it for a prefix of a
/// key, and for a range that was merged. The type of its bounds is required (azure-sdk-for-rust#4729).
fn part(headers: &HeaderMap) -> Result<(&str, &str), ServiceError> {
    let min = header(headers, "x-ms-start-epk");
    let max = header(headers, "x-ms-end-epk");
    let is_range = header(headers, "x-ms-read-key-type") == Some("EffectivePartitionKeyRange");
    if (min.is_some() || max.is_some()) && !is_range {
        return Err(ServiceError::bad_request(
            "One of the input values is invalid.",
        ));
    }
    Ok((min.unwrap_or_default(), max.unwrap_or(epk::MAX)))
}

/// Returns the bounds of the first partition from `min` on that can have results of a query.
fn next_partition(min: &str, container: &Container, keys: &KeyRanges) -> Option<EpkBounds> {
    let mut ranges = container.ranges.iter();
    let next = ranges.find(|range| *range.min >= *min && keys.meet(range))?;
    Some(EpkBounds::new(&*next.min, &*next.max))
}

impl RowCondition {
    /// Returns whether all rows have the same partition key.
    pub(in crate::op) fn is_one_key(&self) -> bool {
        self.condition == ONE_KEY
    }

    fn between(min: &str, max: &str) -> Self {
        if min.is_empty() && max == epk::MAX {
            // The only physical partition. Without a condition the store can use any index.
            return Self {
                condition: "1".to_owned(),
                parameters: Vec::new(),
            };
        }
        Self {
            condition: "epk >= ? AND epk < ?".to_owned(),
            parameters: vec![
                SqlValue::Text(min.to_owned()),
                SqlValue::Text(max.to_owned()),
            ],
        }
    }
}
