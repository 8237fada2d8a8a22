//! Point operations: one document, named by its partition key and id.

use http::{HeaderMap, Method};
use rusqlite::Connection;
use serde_json::Value;

use super::not_allowed;
use super::write::{Condition, Operation, Outcome, Place};
use crate::error::ServiceError;
use crate::route::{flag, header};
use crate::rules;
use crate::service::{Answer, Asked, Service, now_secs};
use crate::store::{Container, catalog};

/// Create and upsert.
pub(super) fn create(
    service: &Service,
    asked: &Asked,
    (db, coll): (&str, &str),
) -> Result<Answer, ServiceError> {
    rules::size(asked.body.len())?;
    let document = serde_json::from_slice(&asked.body)?;
    let operation = if flag(&asked.headers, "x-ms-documentdb-is-upsert") {
        Operation::Upsert(document, condition(&asked.headers))
    } else {
        Operation::Create(document)
    };
    carry_out(service, asked, (db, coll), operation)
}

/// Read, replace, patch, delete.
pub(super) fn item(
    service: &Service,
    asked: &Asked,
    (db, coll): (&str, &str),
    id: &str,
) -> Result<Answer, ServiceError> {
    rules::size(asked.body.len())?;
    let condition = condition(&asked.headers);
    let id = id.to_owned();
    let operation = match asked.method {
        Method::GET => Operation::Read(id, condition),
        Method::PUT => Operation::Replace(id, serde_json::from_slice(&asked.body)?, condition),
        Method::PATCH => Operation::Patch(id, serde_json::from_slice(&asked.body)?, condition),
        Method::DELETE => Operation::Delete(id, condition),
        _ => return Err(not_allowed(asked)),
    };
    carry_out(service, asked, (db, coll), operation)
}

fn carry_out(
    service: &Service,
    asked: &Asked,
    (db, coll): (&str, &str),
    operation: Operation,
) -> Result<Answer, ServiceError> {
    if matches!(operation, Operation::Read(..)) {
        let connection = service.store.read()?;
        let lsn = catalog::last_lsn(&connection)?;
        return apply(&connection, asked, (db, coll), operation, lsn);
    }
    let mut connection = service.store.lock();
    let savepoint = connection.savepoint()?;
    let lsn = catalog::next_lsn(&savepoint)?;
    let answer = apply(&savepoint, asked, (db, coll), operation, lsn)?;
    savepoint.commit()?;
    Ok(answer)
}

fn apply(
    connection: &Connection,
    asked: &Asked,
    (db, coll): (&str, &str),
    operation: Operation,
    lsn: i64,
) -> Result<Answer, ServiceError> {
    let container = Container::find(connection, db, coll)?;
    let place = Place {
        connection,
        container: &container,
        partition_key: partition_key(&asked.headers, &container)?,
        lsn,
        now: now_secs(),
    };
    let reads = matches!(operation, Operation::Read(..));
    let outcome = place.apply(operation)?;
    let token = session_token(&container, &place);
    Ok(answer(asked, outcome, reads).with("x-ms-session-token", token))
}

fn answer(asked: &Asked, outcome: Outcome, reads: bool) -> Answer {
    let minimal =
        header(&asked.headers, "prefer").is_some_and(|value| value.contains("return=minimal"));
    let mut answer = Answer::empty(outcome.status).charged(outcome.charge);
    if reads || !minimal {
        answer.body = outcome.body.unwrap_or_default().into_bytes();
    }
    match outcome.etag {
        Some(etag) => answer.with("etag", etag),
        None => answer,
    }
}

pub(super) fn condition(headers: &HeaderMap) -> Condition {
    Condition {
        if_match: header(headers, "if-match").map(str::to_owned),
        if_none_match: header(headers, "if-none-match").map(str::to_owned),
    }
}

/// The partition key of the header; it must have every level.
pub(super) fn partition_key(
    headers: &HeaderMap,
    container: &Container,
) -> Result<Vec<Option<Value>>, ServiceError> {
    let levels = container.partition_key_paths().len();
    let text = header(headers, "x-ms-documentdb-partitionkey").unwrap_or("[]");
    let key = rules::partition_key_header(text)?;
    if key.len() != levels {
        return Err(ServiceError::bad_request(format!(
            "The partition key supplied in x-ms-partitionkey header has {} components, the collection \
             defines {levels}.",
            key.len()
        )));
    }
    Ok(key)
}

/// How far the physical partition of this place has come.
pub(super) fn session_token(container: &Container, place: &Place<'_>) -> String {
    let epk = crate::epk::effective_partition_key(&place.partition_key);
    let range = container.range_of(&epk).map_or("0", |range| &range.id);
    format!("{range}:-1#{}", place.lsn)
}
