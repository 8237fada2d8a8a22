//! Point operations: operations on one document by its partition key and id.

use http::{HeaderMap, Method};
use serde_json::Value;

use super::patch::Patch;
use super::write::{Operation, OperationContext, Outcome, Preconditions};
use crate::account::Service;
use crate::op::access::Access;
use crate::op::target::container;
use crate::protocol::{Request, Response, ServiceError, binary_json, flag, header};
use crate::rules;
use crate::store::{Container, PhysicalRange, Savepoint, version};

/// Executes a create or an upsert.
pub(in crate::op) fn create(
    service: &Service,
    request: &Request,
) -> Result<Response, ServiceError> {
    rules::request_size(request.body.len())?;
    let document = binary_json::read(&request.body)?;
    let operation = if flag(&request.headers, "x-ms-documentdb-is-upsert") {
        Operation::Upsert(document, condition(&request.headers))
    } else {
        Operation::Create(document)
    };
    execute(service, request, operation)
}

/// Executes a read, replace, patch or delete.
pub(in crate::op) fn item(
    service: &Service,
    request: &Request,
    id: &str,
) -> Result<Response, ServiceError> {
    rules::request_size(request.body.len())?;
    let condition = condition(&request.headers);
    let id = id.to_owned();
    let operation = match request.method {
        Method::GET => Operation::Read(id, condition),
        Method::PUT => Operation::Replace(id, binary_json::read(&request.body)?, condition),
        Method::PATCH => {
            let body = request.json()?;
            Operation::Patch(id, Patch::read(body)?, condition)
        }
        Method::DELETE => Operation::Delete(id, condition),
        _ => {
            return Err(ServiceError::method_not_allowed(
                &request.method,
                "GET, PUT, PATCH or DELETE",
            ));
        }
    };
    execute(service, request, operation)
}

fn execute(
    service: &Service,
    request: &Request,
    operation: Operation,
) -> Result<Response, ServiceError> {
    if matches!(operation, Operation::Read(..)) {
        return read(service, request, operation);
    }
    let connection = service.store.lock();
    let savepoint = Savepoint::begin(&connection)?;
    let container = container(&savepoint, request)?;
    let partition_key = partition_key(&request.headers, &container)?;
    let access = Access::write(
        service,
        &savepoint,
        request,
        &container,
        range_of_key(&container, &partition_key),
    )?;
    check_triggers(&request.headers)?;
    let context = OperationContext {
        connection: &savepoint,
        container: &container,
        replicas: &service.replicas,
        unique_key_answer: service.unique_key_answer(),
        partition_key,
        lsn: version::next_lsn(&savepoint)?,
        at: 0,
        now: service.clock.now_secs(),
    };
    match context.apply(operation) {
        Ok(outcome) => {
            let lsn = context.lsn;
            savepoint.commit()?;
            Ok(access.end(response(request, outcome, false), lsn))
        }
        Err(error) => {
            drop(savepoint);
            Ok(access.refused(&error, version::last_lsn(&connection)?))
        }
    }
}

/// Fails if a request names triggers, which would change its effect.
fn check_triggers(headers: &HeaderMap) -> Result<(), ServiceError> {
    let kinds = [
        "x-ms-documentdb-pre-trigger-include",
        "x-ms-documentdb-post-trigger-include",
    ];
    let named = kinds.iter().filter_map(|kind| header(headers, kind));
    if named.map(str::trim).all(str::is_empty) {
        return Ok(());
    }
    Err(ServiceError::no_scripts())
}

/// Executes a read, which does not wait for writers.
fn read(
    service: &Service,
    request: &Request,
    operation: Operation,
) -> Result<Response, ServiceError> {
    let connection = service.store.read()?;
    let container = container(&connection, request)?;
    let partition_key = partition_key(&request.headers, &container)?;
    let access = Access::read(
        service,
        &connection,
        request,
        &container,
        range_of_key(&container, &partition_key),
    )?;
    let (view, lsn) = (access.view(&container), access.lsn());
    let context = OperationContext {
        connection: &connection,
        container: &view,
        replicas: &service.replicas,
        unique_key_answer: service.unique_key_answer(),
        partition_key,
        lsn,
        at: 0,
        now: service.clock.now_secs(),
    };
    match context.apply(operation) {
        Ok(outcome) => Ok(access.end(response(request, outcome, true), lsn)),
        Err(error) => Ok(access.refused(&error, lsn)),
    }
}

/// Returns the physical partition of a partition key.
pub(in crate::op) fn range_of_key<'a>(
    container: &'a Container,
    key: &[Option<Value>],
) -> Vec<&'a PhysicalRange> {
    let epk = container.epk(key);
    container.range_of(&epk).into_iter().collect()
}

fn response(request: &Request, outcome: Outcome, reads: bool) -> Response {
    let minimal =
        header(&request.headers, "prefer").is_some_and(|value| value.contains("return=minimal"));
    let mut response = Response::empty(outcome.status).charged(outcome.charge);
    if reads || !minimal {
        response.body = outcome.body.unwrap_or_default().into_bytes();
    }
    if let Some(lsn) = outcome.read_lsn {
        // Rust SDK, emulator_tests/cosmos_response_metadata.rs.
        response = response.with("x-ms-item-lsn", lsn.to_string());
    }
    match outcome.etag {
        Some(etag) => response.with("etag", etag),
        None => response,
    }
}

fn condition(headers: &HeaderMap) -> Preconditions {
    Preconditions {
        if_match: header(headers, "if-match").map(str::to_owned),
        if_none_match: header(headers, "if-none-match").map(str::to_owned),
    }
}

/// Reads the partition key from its header.
pub(in crate::op) fn partition_key(
    headers: &HeaderMap,
    container: &Container,
) -> Result<Vec<Option<Value>>, ServiceError> {
    let text = header(headers, "x-ms-documentdb-partitionkey").unwrap_or("[]");
    key_of(text, container)
}

/// Reads a partition key with all its levels.
pub(in crate::op) fn key_of(
    text: &str,
    container: &Container,
) -> Result<Vec<Option<Value>>, ServiceError> {
    let levels = container.partition_key_paths().len();
    let key = rules::partition_key_header(text)?;
    if key.len() != levels {
        let fewer = if key.len() < levels { "fewer" } else { "more" };
        // The sub-status: Rust SDK, emulator_tests/cosmos_hpk.rs.
        let message = format!(
            "The partition key supplied in x-ms-partitionkey header has {fewer} components than defined in the the \
             collection."
        );
        return Err(ServiceError::new(400, 1001, "BadRequest", message));
    }
    Ok(key)
}
