//! The change feed (latest version), and the list of all documents.
//!
//! The cursor is the log sequence number (LSN) of the last returned write, quoted as an `ETag`. All
//! containers share one log, so the children of a split continue from the cursor of their parent.

use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

use super::access::Access;
use super::charge;
use super::query::scope::RequestScope;
use super::target::container;
use crate::account::Service;
use crate::protocol::{Request, Response, ServiceError, header};
use crate::store::{Container, RowCondition, SqlValue};

/// The default page size.
const PAGE: usize = 100;
/// The page size when the caller leaves it to the service (-1).
const LARGE_PAGE: usize = 1000;
/// Maximum size of a page in bytes.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Maximum number of writes of a batch. They share an LSN, and a page does not end between them.
const MAX_BATCH: usize = 100;

/// The kind of feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// All documents.
    Listing,
    /// The documents that changed since a cursor.
    Changes,
    /// All versions and deletes since a cursor.
    Versions,
}

/// `GET …/docs`.
pub(super) fn feed(service: &Service, request: &Request) -> Result<Response, ServiceError> {
    let connection = service.store.read()?;
    let container = container(&connection, request)?;
    let mode = mode(request, &container)?;
    let scope = RequestScope::of(&request.headers, &container)?;
    let access = Access::read(service, &connection, request, &container, scope.ranges)?;
    let last = access.lsn();
    let start = start(request, mode, last)?;
    let mut rows = since(request, mode, scope.rows)?;
    let wanted = request
        .page_size()?
        .unwrap_or(if leaves_size_to_service(request) {
            LARGE_PAGE
        } else {
            PAGE
        });
    let limit = wanted.saturating_add(MAX_BATCH);
    let view = access.view(&container);
    let changes = if mode == Mode::Versions {
        view.history(&connection, start, &rows, limit)?
    } else {
        rows.condition = format!("(expires IS NULL OR expires >= ?) AND {}", rows.condition);
        let now = SqlValue::Integer(service.clock.now_secs());
        rows.parameters.insert(0, now);
        view.changes(&connection, start, &rows, limit)?
    };
    let page = end_page(changes, wanted);
    // A complete page covers the whole log.
    let reached = match page.changes.last() {
        Some((lsn, _)) if page.more => *lsn,
        _ => last.max(start),
    };
    Ok(access.end(response(page, &container.rid(), mode, reached), last))
}

/// Returns the kind of the requested feed. All versions and deletes are kept for containers with a
/// `changeFeedPolicy`.
fn mode(request: &Request, container: &Container) -> Result<Mode, ServiceError> {
    match header(&request.headers, "a-im") {
        None => Ok(Mode::Listing),
        Some(im) if im.eq_ignore_ascii_case("incremental feed") => Ok(Mode::Changes),
        Some(im) if im.eq_ignore_ascii_case("full-fidelity feed") => {
            if container.retention().is_some() {
                return Ok(Mode::Versions);
            }
            Err(ServiceError::bad_request(
                "The change feed of all versions and deletes is not enabled for this container; create it with a \
                 changeFeedPolicy whose retentionDuration is positive.",
            ))
        }
        Some(im) => Err(ServiceError::bad_request(format!(
            "The value '{im}' specified for the header 'A-IM' is invalid."
        ))),
    }
}

/// Returns whether the caller leaves the page size to the service, which then returns large pages.
fn leaves_size_to_service(request: &Request) -> bool {
    header(&request.headers, "x-ms-max-item-count") == Some("-1")
}

/// Returns the LSN after which the page begins.
fn start(request: &Request, mode: Mode, last: i64) -> Result<i64, ServiceError> {
    let token = match mode {
        Mode::Changes | Mode::Versions => "if-none-match",
        Mode::Listing => "x-ms-continuation",
    };
    match header(&request.headers, token) {
        None if mode == Mode::Versions => Err(ServiceError::bad_request(
            "The change feed of all versions and deletes starts now or at a continuation.",
        )),
        None => Ok(0),
        Some("*") if mode != Mode::Listing => Ok(last),
        Some(cursor) => {
            let number: Option<i64> = cursor.trim_matches('"').parse().ok();
            number.filter(|number| *number >= 0).ok_or_else(|| {
                ServiceError::bad_request(format!(
                    "'{cursor}' is not a valid continuation of a feed."
                ))
            })
        }
    }
}

/// Excludes documents that were last changed before a time, with a precision of a second. It also
/// applies to requests with a cursor: clients send the time with every cursor, and no change after
/// a cursor is older than the start of the feed.
fn since(
    request: &Request,
    mode: Mode,
    mut rows: RowCondition,
) -> Result<RowCondition, ServiceError> {
    let Some(time) =
        header(&request.headers, "if-modified-since").filter(|_| mode != Mode::Listing)
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
    rows.parameters.push(SqlValue::Integer(seconds));
    Ok(rows)
}

/// The changes of a page.
struct FeedPage {
    changes: Vec<(i64, Value)>,
    /// Whether more changes follow.
    more: bool,
    bytes: usize,
}

/// Ends a page at the requested or maximum size, after all writes of a batch.
fn end_page(mut changes: Vec<(i64, Value)>, wanted: usize) -> FeedPage {
    let mut bytes = 0;
    let mut end = changes.len();
    for (at, (lsn, document)) in changes.iter().enumerate() {
        let size = document.to_string().len();
        let full = at >= wanted || bytes + size > PAGE_BYTES;
        if full && at > 0 && changes[at - 1].0 != *lsn {
            end = at;
            break;
        }
        bytes += size;
    }
    let more = end < changes.len();
    changes.truncate(end);
    FeedPage {
        changes,
        more,
        bytes,
    }
}

fn response(page: FeedPage, rid: &str, mode: Mode, reached: i64) -> Response {
    let etag = format!("\"{reached}\"");
    if page.changes.is_empty() && mode != Mode::Listing {
        return Response::empty(304)
            .with("etag", etag)
            .charged(charge::EMPTY_FEED);
    }
    let documents: Vec<Value> = page
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
    let response = Response::json(200, &body)
        .with("x-ms-item-count", count.to_string())
        .charged(charge::feed(count, page.bytes));
    match mode {
        Mode::Changes | Mode::Versions => response.with("etag", etag),
        Mode::Listing if page.more => response.with("x-ms-continuation", reached.to_string()),
        Mode::Listing => response,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, Method};

    use super::*;
    use crate::account::{Account, Settings};
    use crate::op::dispatch;
    use crate::store::Store;
    use crate::time::Clock;

    fn send(service: &Service, method: Method, body: &Value, headers: &[(&str, &str)]) -> Response {
        dispatch(service, &request(method, body, headers)).unwrap()
    }

    fn status(service: &Service, request: &Request) -> u16 {
        dispatch(service, request).map_or_else(|error| error.status, |response| response.status)
    }

    fn request(method: Method, body: &Value, headers: &[(&str, &str)]) -> Request {
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
        Request {
            body: Bytes::from(body.to_string()),
            ..Request::new(method, path, map)
        }
    }

    /// A container with ten writes to partition key `q`, then one to `p`.
    fn filled() -> Service {
        let store = Store::open(None).unwrap();
        let service = Service::new(
            store,
            Clock::machine(),
            Account::default(),
            Settings::default(),
        );
        send(&service, Method::POST, &json!({ "id": "d" }), &[]);
        let container = json!({ "id": "c", "partitionKey": { "paths": ["/pk"] } });
        send(&service, Method::POST, &container, &[]);
        for n in 0..11 {
            let pk = if n == 10 { "p" } else { "q" };
            let body = json!({ "id": n.to_string(), "pk": pk });
            let key = format!("[\"{pk}\"]");
            let headers = [("x-ms-documentdb-partitionkey", &*key)];
            send(&service, Method::POST, &body, &headers);
        }
        service
    }

    #[test]
    fn the_feed_of_a_partition_key_skips_the_changes_of_others() {
        let service = filled();
        let headers = [
            ("x-ms-documentdb-partitionkey", r#"["p"]"#),
            ("x-ms-max-item-count", "3"),
            ("a-im", "Incremental Feed"),
        ];
        let response = send(&service, Method::GET, &Value::Null, &headers);
        assert_eq!(response.status, 200);
        let body: Value = serde_json::from_slice(&response.body).unwrap();
        assert_eq!(body["Documents"][0]["id"], "10");
    }

    #[test]
    fn a_damaged_document_is_an_error_of_the_emulator() {
        let service = filled();
        let damage = "UPDATE document_1 SET body = 'x' WHERE id = '10'";
        service.store.lock().execute(damage, []).unwrap();
        let headers = [
            ("x-ms-documentdb-partitionkey", r#"["p"]"#),
            ("a-im", "Incremental Feed"),
        ];
        let read = request(Method::GET, &Value::Null, &headers);
        assert_eq!(status(&service, &read), 500);
        let upsert = [
            ("x-ms-documentdb-partitionkey", r#"["p"]"#),
            ("x-ms-documentdb-is-upsert", "true"),
        ];
        let document = json!({ "id": "10", "pk": "p" });
        let write = request(Method::POST, &document, &upsert);
        assert_eq!(status(&service, &write), 500);
        let malformed = Request {
            body: Bytes::from("x"),
            ..write
        };
        assert_eq!(status(&service, &malformed), 400);
    }

    #[test]
    fn a_page_size_of_usize_max_is_accepted() {
        let service = filled();
        let largest = usize::MAX.to_string();
        let headers = [
            ("x-ms-documentdb-partitionkey", r#"["q"]"#),
            ("x-ms-max-item-count", &largest),
        ];
        let response = send(&service, Method::GET, &Value::Null, &headers);
        let body: Value = serde_json::from_slice(&response.body).unwrap();
        assert_eq!(body["_count"], 10);
    }
}
