//! Point operations: one document, named by its partition key and id.

use http::{HeaderMap, Method};
use serde_json::Value;

use super::visit::Visit;
use super::write::{Condition, Operation, Outcome, Place};
use super::{container, not_allowed};
use crate::binary_json;
use crate::error::ServiceError;
use crate::route::{flag, header};
use crate::service::{Answer, Asked, Service, now_secs};
use crate::store::ranges::PhysicalRange;
use crate::store::{Container, catalog};
use crate::{epk, rules};

/// Create and upsert.
pub(super) fn create(
    service: &Service,
    asked: &Asked,
    (db, coll): (&str, &str),
) -> Result<Answer, ServiceError> {
    rules::size(asked.body.len())?;
    let document = binary_json::read(&asked.body)?;
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
        Method::PUT => Operation::Replace(id, binary_json::read(&asked.body)?, condition),
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
        return read(service, asked, (db, coll), operation);
    }
    let mut connection = service.store.lock();
    let savepoint = connection.savepoint()?;
    let container = container(&savepoint, asked, (db, coll))?;
    let partition_key = partition_key(&asked.headers, &container)?;
    let visit = Visit::write(
        service,
        &savepoint,
        asked,
        &container,
        home(&container, &partition_key),
    )?;
    let lsn = catalog::next_lsn(&savepoint)?;
    let place = Place {
        connection: &savepoint,
        container: &container,
        partition_key,
        lsn,
        at: 0,
        now: now_secs(),
    };
    match place.apply(operation) {
        Ok(outcome) => {
            savepoint.commit()?;
            Ok(visit.end(answer(asked, outcome, false), lsn))
        }
        Err(error) => {
            drop(savepoint);
            Ok(visit.refused(&error, catalog::last_lsn(&connection)?))
        }
    }
}

/// A read, which needs no turn among the writers.
fn read(
    service: &Service,
    asked: &Asked,
    (db, coll): (&str, &str),
    operation: Operation,
) -> Result<Answer, ServiceError> {
    let connection = service.store.read()?;
    let container = container(&connection, asked, (db, coll))?;
    let partition_key = partition_key(&asked.headers, &container)?;
    let visit = Visit::read(
        service,
        &connection,
        asked,
        &container,
        home(&container, &partition_key),
    )?;
    let lsn = catalog::last_lsn(&connection)?;
    let place = Place {
        connection: &connection,
        container: &container,
        partition_key,
        lsn,
        at: 0,
        now: now_secs(),
    };
    match place.apply(operation) {
        Ok(outcome) => Ok(visit.end(answer(asked, outcome, true), lsn)),
        Err(error) => Ok(visit.refused(&error, lsn)),
    }
}

/// The physical partition that holds a partition key.
fn home<'a>(container: &'a Container, key: &[Option<Value>]) -> Vec<&'a PhysicalRange> {
    let epk = epk::effective_partition_key(key);
    container.range_of(&epk).into_iter().collect()
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

fn condition(headers: &HeaderMap) -> Condition {
    Condition {
        if_match: header(headers, "if-match").map(str::to_owned),
        if_none_match: header(headers, "if-none-match").map(str::to_owned),
    }
}

/// The partition key of the header.
pub(super) fn partition_key(
    headers: &HeaderMap,
    container: &Container,
) -> Result<Vec<Option<Value>>, ServiceError> {
    let text = header(headers, "x-ms-documentdb-partitionkey").unwrap_or("[]");
    key_of(text, container)
}

/// A partition key as it is sent; it must have every level.
pub(super) fn key_of(
    text: &str,
    container: &Container,
) -> Result<Vec<Option<Value>>, ServiceError> {
    let levels = container.partition_key_paths().len();
    let key = rules::partition_key_header(text)?;
    if key.len() != levels {
        let fewer = if key.len() < levels { "fewer" } else { "more" };
        return Err(ServiceError::bad_request(format!(
            "The partition key supplied in x-ms-partitionkey header has {fewer} components than defined in the the \
             collection."
        )));
    }
    Ok(key)
}
