//! Reading a container from end to end: the change feed (latest version), and the plain listing.

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::charge;
use crate::epk;
use crate::error::ServiceError;
use crate::route::header;
use crate::rules;
use crate::service::{Answer, Asked, Service, now_secs};
use crate::store::{Container, catalog};

/// Documents per page when the caller does not say.
const PAGE: usize = 100;
/// All writes of a batch share a number, and a page never ends within one.
const LARGEST_BATCH: usize = 100;

/// `GET …/docs`.
pub(super) fn feed(
    service: &Service,
    asked: &Asked,
    (db, coll): (&str, &str),
) -> Result<Answer, ServiceError> {
    let connection = service.store.lock();
    let container = Container::find(&connection, db, coll)?;
    let changes_only = header(&asked.headers, "a-im").is_some();
    let (range, partition) = scope(asked, &container)?;
    let last = catalog::last_lsn(&connection)?;
    let start = start(asked, changes_only, last)?;
    let changes = page(
        &connection,
        &container,
        asked,
        (start, (&range.0, &range.1)),
    )?;
    let reached = changes.last().map_or(last.max(start), |(lsn, _)| *lsn);
    let paths = container.partition_key_paths();
    let wanted = |document: &Value| match (&partition, document.as_object()) {
        (Some(key), Some(document)) => rules::partition_key(document, &paths) == *key,
        _ => true,
    };
    let documents: Vec<Value> = changes
        .into_iter()
        .filter(|(_, document)| wanted(document))
        .map(|(lsn, mut document)| {
            if changes_only {
                document["_lsn"] = lsn.into();
            }
            document
        })
        .collect();
    let etag = format!("\"{reached}\"");
    if documents.is_empty() && changes_only {
        return Ok(Answer::empty(304).with("etag", etag).charged(1.0));
    }
    let answer = answer(&documents);
    Ok(if changes_only {
        answer.with("etag", etag)
    } else if reached < last && !documents.is_empty() {
        answer.with("x-ms-continuation", reached.to_string())
    } else {
        answer
    })
}

/// The number after which the page begins.
fn start(asked: &Asked, changes_only: bool, last: i64) -> Result<i64, ServiceError> {
    let token = if changes_only {
        "if-none-match"
    } else {
        "x-ms-continuation"
    };
    match header(&asked.headers, token) {
        None => Ok(0),
        Some("*") => Ok(last),
        Some(etag) => etag.trim_matches('"').parse().map_err(|_| {
            ServiceError::bad_request(format!("'{etag}' is no continuation of a feed."))
        }),
    }
}

fn page(
    connection: &Connection,
    container: &Container,
    asked: &Asked,
    (start, bounds): (i64, (&str, &str)),
) -> Result<Vec<(i64, Value)>, ServiceError> {
    let wanted = header(&asked.headers, "x-ms-max-item-count")
        .and_then(|count| count.parse().ok())
        .filter(|count| *count > 0)
        .unwrap_or(PAGE);
    let limit = wanted + LARGEST_BATCH;
    let mut changes = container.changes(connection, start, bounds, limit, now_secs())?;
    if changes.len() > wanted {
        let end = changes[wanted - 1].0;
        changes.retain(|(lsn, _)| *lsn <= end);
    }
    Ok(changes)
}

fn answer(documents: &[Value]) -> Answer {
    let count = documents.len();
    let body = json!({ "_rid": "", "Documents": documents, "_count": count });
    let mut answer = Answer::json(200, &body).with("x-ms-item-count", count.to_string());
    answer.charge = 1.0 + charge::query(count, answer.body.len());
    answer
}

type Bounds = (String, String);
type Key = Vec<Option<Value>>;

/// The part of the hash space that is asked for, and the one partition of it, if only one is.
fn scope(asked: &Asked, container: &Container) -> Result<(Bounds, Option<Key>), ServiceError> {
    if let Some(id) = header(&asked.headers, "x-ms-documentdb-partitionkeyrangeid") {
        let range = container.range(id)?;
        return Ok(((range.min.clone(), range.max.clone()), None));
    }
    let everything = (String::new(), epk::MAX.to_owned());
    match header(&asked.headers, "x-ms-documentdb-partitionkey") {
        Some(key) => Ok((everything, Some(rules::partition_key_header(key)?))),
        None => Ok((everything, None)),
    }
}
