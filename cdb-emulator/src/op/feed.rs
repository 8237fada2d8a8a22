//! Reading a container from end to end: the change feed (latest version), and the plain listing.

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
    let headers = &asked.headers;
    let changes_only = header(headers, "a-im").is_some();
    let wanted = header(headers, "x-ms-max-item-count")
        .and_then(|count| count.parse().ok())
        .filter(|count| *count > 0)
        .unwrap_or(PAGE);
    let (range, partition) = scope(asked, &container)?;
    let token = if changes_only {
        "if-none-match"
    } else {
        "x-ms-continuation"
    };
    let last = catalog::last_lsn(&connection)?;
    let start = match header(headers, token) {
        None => 0,
        Some("*") => last,
        Some(etag) => etag.trim_matches('"').parse().map_err(|_| {
            ServiceError::bad_request(format!("'{etag}' is no continuation of a feed."))
        })?,
    };
    let bounds = (&*range.0, &*range.1);
    let mut changes = container.changes(
        &connection,
        start,
        bounds,
        wanted + LARGEST_BATCH,
        now_secs(),
    )?;
    if changes.len() > wanted {
        let end = changes[wanted - 1].0;
        changes.retain(|(lsn, _)| *lsn <= end);
    }
    let reached = changes.last().map_or(last.max(start), |(lsn, _)| *lsn);
    let documents: Vec<Value> = changes
        .into_iter()
        .filter(|(_, document)| {
            partition.as_ref().is_none_or(|key| {
                document
                    .as_object()
                    .map(|document| {
                        rules::partition_key(document, &container.partition_key_paths())
                    })
                    .as_ref()
                    == Some(key)
            })
        })
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
    let count = documents.len();
    let bytes: usize = documents
        .iter()
        .map(|document| document.to_string().len())
        .sum();
    let body = json!({ "_rid": "", "Documents": documents, "_count": count });
    let answer = Answer::json(200, &body)
        .with("x-ms-item-count", count.to_string())
        .charged(1.0 + charge::query(count, bytes));
    Ok(if changes_only {
        answer.with("etag", etag)
    } else if reached < last && count > 0 {
        answer.with("x-ms-continuation", reached.to_string())
    } else {
        answer
    })
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
