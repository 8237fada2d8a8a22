//! Reading a container from end to end: the change feed (latest version), and the plain listing.

use rusqlite::Connection;
use serde_json::{Value, json};

use super::scope::RowScope;
use crate::charge;
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
    let connection = service.store.read()?;
    let container = Container::find(&connection, db, coll)?;
    let changes_only = header(&asked.headers, "a-im").is_some();
    let scope = scope(asked, &container)?;
    let last = catalog::last_lsn(&connection)?;
    let start = start(asked, changes_only, last)?;
    let changes = page(&connection, &container, asked, (start, &scope))?;
    let reached = changes.last().map_or(last.max(start), |(lsn, _)| *lsn);
    let documents: Vec<Value> = changes
        .into_iter()
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
    (start, scope): (i64, &RowScope),
) -> Result<Vec<(i64, Value)>, ServiceError> {
    let wanted = header(&asked.headers, "x-ms-max-item-count")
        .and_then(|count| count.parse().ok())
        .filter(|count| *count > 0)
        .unwrap_or(PAGE);
    let limit = wanted.saturating_add(LARGEST_BATCH);
    let filter = (&*scope.condition, &*scope.parameters);
    let mut changes = container.changes(connection, start, filter, limit, now_secs())?;
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

/// The part of the container that is asked for.
fn scope(asked: &Asked, container: &Container) -> Result<RowScope, ServiceError> {
    if let Some(id) = header(&asked.headers, "x-ms-documentdb-partitionkeyrangeid") {
        return Ok(RowScope::range(container.range(id)?));
    }
    match header(&asked.headers, "x-ms-documentdb-partitionkey") {
        Some(key) => {
            let key = rules::partition_key_header(key)?;
            Ok(RowScope::key(container, key))
        }
        None => Ok(RowScope::everything()),
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
