//! The physical partitions of a container: their list, their change feed, splits and merges.
//!
//! The cursor of the feed is the next free range id. After a split a client gets only the
//! children, whose `parents` name the ranges that they replace. A client that knows all ranges gets
//! 304.

use serde_json::{Value, json};

use crate::account::Service;
use crate::op::target::container;
use crate::protocol::rid::Inside;
use crate::protocol::{ContainerName, Request, Response, ServiceError, header};
use crate::store::partitions::ranges::{before_last_split, next_number};
use crate::store::version::last_lsn;
use crate::store::{Container, PhysicalRange, Savepoint};

/// `GET …/pkranges`.
pub(in crate::op) fn ranges(
    service: &Service,
    request: &Request,
) -> Result<Response, ServiceError> {
    let connection = service.store.read()?;
    let container = container(&connection, request)?;
    let ranges = if request.stale_ranges {
        before_last_split(&container.ranges)
    } else {
        container.ranges.clone()
    };
    let etag = format!("\"{}\"", next_number(&ranges));
    let first = first(request)?;
    let lsn = last_lsn(&connection)?;
    let share = u32::try_from(ranges.len()).map_or(1.0, f64::from).recip();
    let new: Vec<Value> = ranges
        .iter()
        .filter(|range| range.number() >= first)
        .map(|range| {
            let mut listed = to_json(&container, range, &etag, lsn);
            listed["throughputFraction"] = share.into();
            listed
        })
        .collect();
    if new.is_empty() {
        return Ok(Response::empty(304).with("etag", etag).charged(1.0));
    }
    let rid = container.rid();
    Ok(Response::list("PartitionKeyRanges", &rid, new)
        .with("etag", etag)
        .charged(1.0))
}

/// Returns the first range id that the caller does not know.
fn first(request: &Request) -> Result<u64, ServiceError> {
    let incremental = header(&request.headers, "a-im")
        .is_some_and(|value| value.eq_ignore_ascii_case("incremental feed"));
    match header(&request.headers, "if-none-match") {
        Some("*") if incremental => Ok(u64::MAX),
        Some(etag) if incremental => etag.trim_matches('"').parse().map_err(|_| {
            ServiceError::bad_request(format!(
                "'{etag}' is not an etag of a partition key range feed."
            ))
        }),
        _ => Ok(0),
    }
}

fn to_json(container: &Container, range: &PhysicalRange, etag: &str, lsn: i64) -> Value {
    let rid = container.rid_inside(Inside::Range(range.number()));
    let link = format!("{}pkranges/{rid}/", container.self_link());
    json!({
        "id": range.id, "_rid": rid, "_self": link, "_etag": etag, "_ts": container.created, "_lsn": lsn,
        "minInclusive": range.min, "maxExclusive": range.max, "ridPrefix": range.number(),
        "status": "online", "parents": range.parents,
    })
}

/// Moves the writes of a physical partition to a region.
pub(crate) fn fail_over(
    service: &Service,
    name: ContainerName,
    range: &str,
    region: &str,
) -> Result<(), ServiceError> {
    let connection = service.store.read()?;
    Container::find(&connection, &name.database, &name.container)?.range(range)?;
    let moved = service.regions.fail_over_partition(name, range, region);
    moved.map_err(ServiceError::bad_request)
}

/// Splits a physical partition in the middle of its hash range and returns the ids of its children.
pub(crate) fn split(
    service: &Service,
    name: &ContainerName,
    range: &str,
) -> Result<[String; 2], ServiceError> {
    let connection = service.store.lock();
    let transaction = Savepoint::begin(&connection)?;
    let found = Container::find(&transaction, &name.database, &name.container)?;
    let children = found.split(&transaction, range)?;
    transaction.commit()?;
    service.regions.follow_split(name, range, &children);
    Ok(children)
}

/// Merges two neighbouring physical partitions and returns the id of the merged one.
pub(crate) fn merge(
    service: &Service,
    name: &ContainerName,
    ids: [&str; 2],
) -> Result<String, ServiceError> {
    let connection = service.store.lock();
    let transaction = Savepoint::begin(&connection)?;
    let found = Container::find(&transaction, &name.database, &name.container)?;
    let merged = found.merge(&transaction, ids)?;
    transaction.commit()?;
    for parent in ids {
        service
            .regions
            .follow_split(name, parent, std::slice::from_ref(&merged));
    }
    Ok(merged)
}
