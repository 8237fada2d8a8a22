//! The physical partitions of a container: their listing, plainly or as a feed of what splits changed, and the splits.
//!
//! The feed's cursor is the next free range id. A client that knew the ranges before a split gets the children only,
//! which name all ranges that they replace; 304 when it knows all.

use serde_json::{Value, json};

use super::{container, list};
use crate::error::ServiceError;
use crate::route::header;
use crate::service::{Answer, Asked, Service};
use crate::store::Container;
use crate::store::catalog::last_lsn;
use crate::store::ranges::{PhysicalRange, next_number};
use crate::store::rid::Inside;

/// `GET …/pkranges`.
pub(super) fn ranges(
    service: &Service,
    asked: &Asked,
    (db, coll): (&str, &str),
) -> Result<Answer, ServiceError> {
    let connection = service.store.read()?;
    let container = container(&connection, asked, (db, coll))?;
    let etag = format!("\"{}\"", next_number(&container.ranges));
    let first = first(asked)?;
    let lsn = last_lsn(&connection)?;
    let new: Vec<Value> = container
        .ranges
        .iter()
        .filter(|range| range.number() >= first)
        .map(|range| to_json(&container, range, (&etag, lsn)))
        .collect();
    if new.is_empty() {
        return Ok(Answer::empty(304).with("etag", etag).charged(1.0));
    }
    let rid = container.rid();
    Ok(list("PartitionKeyRanges", &rid, new)
        .with("etag", etag)
        .charged(1.0))
}

/// The first range id that the caller does not know.
fn first(asked: &Asked) -> Result<u64, ServiceError> {
    let incremental = header(&asked.headers, "a-im")
        .is_some_and(|value| value.eq_ignore_ascii_case("incremental feed"));
    match header(&asked.headers, "if-none-match") {
        Some("*") if incremental => Ok(u64::MAX),
        Some(etag) if incremental => etag.trim_matches('"').parse().map_err(|_| {
            ServiceError::bad_request(format!(
                "'{etag}' is no etag of a partition key range feed."
            ))
        }),
        _ => Ok(0),
    }
}

fn to_json(container: &Container, range: &PhysicalRange, (etag, lsn): (&str, i64)) -> Value {
    let rid = container.rid_inside(Inside::Range(range.number()));
    let link = format!("{}pkranges/{rid}/", container.self_link());
    let share = u32::try_from(container.ranges.len()).map_or(1.0, f64::from);
    json!({
        "id": range.id, "_rid": rid, "_self": link, "_etag": etag, "_ts": container.created, "_lsn": lsn,
        "minInclusive": range.min, "maxExclusive": range.max, "ridPrefix": range.number(),
        "throughputFraction": 1.0 / share, "status": "online", "parents": range.parents,
    })
}

/// Splits a physical partition in the middle of its hash space and returns the ids of its children.
pub(crate) fn split(
    service: &Service,
    (db, coll): (&str, &str),
    range: &str,
) -> Result<[String; 2], ServiceError> {
    let mut connection = service.store.lock();
    let transaction = connection.savepoint()?;
    let children = Container::find(&transaction, db, coll)?.split(&transaction, range)?;
    transaction.commit()?;
    Ok(children)
}
