//! Reading a container from end to end: the change feed (latest version), and the plain listing.
//!
//! The cursor is the number of the last write that was handed out, in quotation marks as an `ETag`. Numbers are the
//! log's, not a physical partition's, so the children of a split go on from the cursor of their parent.

use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

use super::scope::{Reach, RowScope};
use super::visit::Visit;
use super::{container, page_size};
use crate::charge;
use crate::error::ServiceError;
use crate::route::header;
use crate::service::{Answer, Asked, Service, now_secs};
use crate::store::catalog;

/// Documents per page when the caller does not say.
const PAGE: usize = 100;
/// Documents per page when the caller leaves it to the service.
const LARGEST_PAGE: usize = 1000;
/// Most bytes of a page.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// All writes of a batch share a number, and a page never ends within one.
const LARGEST_BATCH: usize = 100;

/// What a feed is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// All documents.
    Listing,
    /// What changed since a cursor.
    Changes,
}

/// `GET …/docs`.
pub(super) fn feed(
    service: &Service,
    asked: &Asked,
    (db, coll): (&str, &str),
) -> Result<Answer, ServiceError> {
    let mode = mode(asked)?;
    let connection = service.store.read()?;
    let container = container(&connection, asked, (db, coll))?;
    let reach = Reach::of(&asked.headers, &container)?;
    let last = catalog::last_lsn(&connection)?;
    let start = start(asked, mode, last)?;
    let visit = Visit::read(service, &connection, asked, &container, reach.ranges)?;
    let rows = since(asked, mode, reach.rows)?;
    let wanted = page_size(asked)?.unwrap_or(if asked_to_choose(asked) {
        LARGEST_PAGE
    } else {
        PAGE
    });
    let limit = wanted.saturating_add(LARGEST_BATCH);
    let filter = (&*rows.condition, &*rows.parameters);
    let changes = container.changes(&connection, start, filter, limit, now_secs())?;
    let cut = cut(changes, wanted);
    // A page that was not cut has seen the whole log.
    let reached = match cut.changes.last() {
        Some((lsn, _)) if cut.more => *lsn,
        _ => last.max(start),
    };
    Ok(visit.end(answer(cut, &container.rid(), (mode, reached)), last))
}

/// Which feed is asked for. The one of all versions and deletes needs a feature that no account has by itself.
fn mode(asked: &Asked) -> Result<Mode, ServiceError> {
    match header(&asked.headers, "a-im") {
        None => Ok(Mode::Listing),
        Some(im) if im.eq_ignore_ascii_case("incremental feed") => Ok(Mode::Changes),
        Some(im) if im.eq_ignore_ascii_case("full-fidelity feed") => {
            Err(ServiceError::bad_request(
                "The change feed of all versions and deletes is not enabled for this account.",
            ))
        }
        Some(im) => Err(ServiceError::bad_request(format!(
            "The value '{im}' specified for the header 'A-IM' is invalid."
        ))),
    }
}

/// Whether the page size is left to the service, which then gives large pages.
fn asked_to_choose(asked: &Asked) -> bool {
    header(&asked.headers, "x-ms-max-item-count") == Some("-1")
}

/// The number after which the page begins.
fn start(asked: &Asked, mode: Mode, last: i64) -> Result<i64, ServiceError> {
    let token = match mode {
        Mode::Changes => "if-none-match",
        Mode::Listing => "x-ms-continuation",
    };
    match header(&asked.headers, token) {
        None => Ok(0),
        Some("*") if mode == Mode::Changes => Ok(last),
        Some(cursor) => {
            let number: Option<i64> = cursor.trim_matches('"').parse().ok();
            number.filter(|number| *number >= 0).ok_or_else(|| {
                ServiceError::bad_request(format!("'{cursor}' is no continuation of a feed."))
            })
        }
    }
}

/// Leaves out what was last changed before a time, which is exact to a second. A cursor does not switch it off: clients
/// send the time along with every cursor, and no change after a cursor is older than the time that the feed began with.
fn since(asked: &Asked, mode: Mode, mut rows: RowScope) -> Result<RowScope, ServiceError> {
    let Some(time) = header(&asked.headers, "if-modified-since").filter(|_| mode == Mode::Changes)
    else {
        return Ok(rows);
    };
    let time = httpdate::parse_http_date(time).map_err(|_| {
        ServiceError::bad_request(format!(
            "The value '{time}' specified for the header 'If-Modified-Since' is invalid."
        ))
    })?;
    let seconds = time
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    rows.condition = format!("({}) AND ts >= ?", rows.condition);
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    rows.parameters
        .push(rusqlite::types::Value::Integer(seconds));
    Ok(rows)
}

/// The changes of a page.
struct Cut {
    changes: Vec<(i64, Value)>,
    /// Whether there are more behind it.
    more: bool,
    bytes: usize,
}

/// Ends a page at its wanted size or its largest one, behind all writes of a batch.
fn cut(mut changes: Vec<(i64, Value)>, wanted: usize) -> Cut {
    let mut bytes = 0;
    let mut end = changes.len();
    for (at, (lsn, document)) in changes.iter().enumerate() {
        let full = at >= wanted || bytes >= PAGE_BYTES;
        if full && changes[at - 1].0 != *lsn {
            end = at;
            break;
        }
        bytes += document.to_string().len();
    }
    let more = end < changes.len();
    changes.truncate(end);
    Cut {
        changes,
        more,
        bytes,
    }
}

fn answer(cut: Cut, rid: &str, (mode, reached): (Mode, i64)) -> Answer {
    let etag = format!("\"{reached}\"");
    if cut.changes.is_empty() && mode == Mode::Changes {
        return Answer::empty(304)
            .with("etag", etag)
            .charged(charge::EMPTY_FEED);
    }
    let documents: Vec<Value> = cut
        .changes
        .into_iter()
        .map(|(lsn, mut document)| {
            if mode == Mode::Changes {
                document["_lsn"] = lsn.into();
            }
            document
        })
        .collect();
    let count = documents.len();
    let body = json!({ "_rid": rid, "Documents": documents, "_count": count });
    let answer = Answer::json(200, &body)
        .with("x-ms-item-count", count.to_string())
        .charged(charge::feed(count, cut.bytes));
    match mode {
        Mode::Changes => answer.with("etag", etag),
        Mode::Listing if cut.more => answer.with("x-ms-continuation", reached.to_string()),
        Mode::Listing => answer,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, Method};

    use super::*;
    use crate::op::dispatch;
    use crate::route::Resource;
    use crate::service::Settings;
    use crate::store::Store;

    fn ask(service: &Service, method: Method, body: &Value, headers: &[(&str, &str)]) -> Answer {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: http::HeaderName = name.parse().unwrap();
            map.insert(name, value.parse().unwrap());
        }
        let path = match headers {
            [] if body["partitionKey"].is_object() => "/dbs/d/colls",
            [] => "/dbs",
            _ => "/dbs/d/colls/c/docs",
        };
        let asked = Asked {
            method,
            path: path.to_owned(),
            headers: map,
            body: Bytes::from(body.to_string()),
        };
        dispatch(service, &asked, &Resource::parse(path).unwrap()).unwrap()
    }

    /// Ten writes of partition `q`, then one of partition `p`.
    fn filled() -> Service {
        let store = Store::open(None).unwrap();
        let service = Service::new(store, Settings::default());
        ask(&service, Method::POST, &json!({ "id": "d" }), &[]);
        let container = json!({ "id": "c", "partitionKey": { "paths": ["/pk"] } });
        ask(&service, Method::POST, &container, &[]);
        for n in 0..11 {
            let pk = if n == 10 { "p" } else { "q" };
            let body = json!({ "id": n.to_string(), "pk": pk });
            let key = format!("[\"{pk}\"]");
            let headers = [("x-ms-documentdb-partitionkey", &*key)];
            ask(&service, Method::POST, &body, &headers);
        }
        service
    }

    #[test]
    fn the_feed_of_a_partition_is_not_over_before_its_changes_are_read() {
        let service = filled();
        let headers = [
            ("x-ms-documentdb-partitionkey", r#"["p"]"#),
            ("x-ms-max-item-count", "3"),
            ("a-im", "Incremental Feed"),
        ];
        let answer = ask(&service, Method::GET, &Value::Null, &headers);
        assert_eq!(answer.status, 200);
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(body["Documents"][0]["id"], "10");
    }

    #[test]
    fn a_page_of_any_size_may_be_asked_for() {
        let service = filled();
        let largest = usize::MAX.to_string();
        let headers = [
            ("x-ms-documentdb-partitionkey", r#"["q"]"#),
            ("x-ms-max-item-count", &largest),
        ];
        let answer = ask(&service, Method::GET, &Value::Null, &headers);
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(body["_count"], 10);
    }
}
