//! Several operations in one request: a transactional batch in one partition key, or independent
//! operations (bulk) in one physical partition.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::item::{key_of, partition_key};
use super::patch::Patch;
use super::write::{Operation, OperationContext, Outcome, Preconditions};
use crate::account::{Service, session};
use crate::op::access::Access;
use crate::op::target::container;
use crate::protocol::{REFUSED, Request, Response, ServiceError, header};
use crate::rules;
use crate::store::{Connection, Container, PhysicalRange, Savepoint, version};

/// Maximum number of operations in a request.
const MAX_OPERATIONS: usize = 100;

/// Maximum size of the response of a batch.
const MAX_RESPONSE_BYTES: usize = 4 * 1024 * 1024;

/// An operation in its JSON form.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OperationBody {
    operation_type: Kind,
    id: Option<String>,
    resource_body: Option<Value>,
    if_match: Option<String>,
    if_none_match: Option<String>,
    /// In a bulk request: the value of the partition key header.
    partition_key: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum Kind {
    Create,
    Upsert,
    Replace,
    Patch,
    Delete,
    Read,
}

impl OperationBody {
    fn into_operation(self) -> Result<Operation, ServiceError> {
        let condition = Preconditions {
            if_match: self.if_match,
            if_none_match: self.if_none_match,
        };
        let body = self.resource_body.unwrap_or_default();
        let id = self.id.unwrap_or_default();
        let document = |body: Value| -> Result<Map<String, Value>, ServiceError> {
            serde_json::from_value(body).map_err(ServiceError::invalid_payload)
        };
        Ok(match self.operation_type {
            Kind::Create => Operation::Create(document(body)?),
            Kind::Upsert => Operation::Upsert(document(body)?, condition),
            Kind::Replace => Operation::Replace(id, document(body)?, condition),
            Kind::Patch => Operation::Patch(id, Patch::read(body)?, condition),
            Kind::Delete => Operation::Delete(id, condition),
            // A batch commits whatever a read's conditions say (azure-cosmos-dotnet-v3#1581), and a bulk
            // read is never 304 (azure-cosmos-dotnet-v3#4195).
            Kind::Read => Operation::Read(id, Preconditions::default()),
        })
    }
}

fn read(body: &[u8]) -> Result<Vec<OperationBody>, ServiceError> {
    rules::request_size(body.len())?;
    let operations: Vec<OperationBody> =
        serde_json::from_slice(body).map_err(ServiceError::invalid_payload)?;
    if operations.is_empty() || operations.len() > MAX_OPERATIONS {
        return Err(ServiceError::bad_request(format!(
            "Batch request has {} operations; 1 to {MAX_OPERATIONS} are allowed.",
            operations.len()
        )));
    }
    Ok(operations)
}

/// Decodes a batch and applies its patches to a document.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn decode(body: &[u8], document: &Map<String, Value>) -> Result<(), ServiceError> {
    for body in read(body)? {
        if let Operation::Patch(_, patch, _) = body.into_operation()? {
            patch.apply(&mut document.clone(), 0)?;
        }
    }
    Ok(())
}

/// Executes a transactional batch.
pub(in crate::op) fn transactional(
    service: &Service,
    request: &Request,
) -> Result<Response, ServiceError> {
    let operations = read(&request.body)?;
    let connection = service.store.lock();
    let transaction = Savepoint::begin(&connection)?;
    let container = container(&transaction, request)?;
    let partition_key = partition_key(&request.headers, &container)?;
    let epk = container.epk(&partition_key);
    let ranges = container.range_of(&epk).into_iter().collect();
    let access = Access::write(service, &transaction, request, &container, ranges)?;
    let context = OperationContext {
        connection: &transaction,
        container: &container,
        replicas: &service.replicas,
        unique_key_answer: service.unique_key_answer(),
        partition_key,
        lsn: version::next_lsn(&transaction)?,
        at: 0,
        now: service.clock.now_secs(),
    };
    let lsn = context.lsn;
    match all_or_nothing(request, context, operations) {
        Ok(response) => {
            transaction.commit()?;
            Ok(access.end(response, lsn))
        }
        Err(aborted) => {
            drop(transaction);
            Ok(access.end(aborted, version::last_lsn(&connection)?))
        }
    }
}

/// Executes operations in order. The first failure determines the response.
fn all_or_nothing(
    request: &Request,
    mut context: OperationContext<'_>,
    operations: Vec<OperationBody>,
) -> Result<Response, Response> {
    let count = operations.len();
    let mut results = Vec::with_capacity(count);
    let (mut total, mut bytes) = (0.0, 0);
    for (at, body) in operations.into_iter().enumerate() {
        let applied = body
            .into_operation()
            .and_then(|operation| context.apply(operation));
        context.at += 1;
        match applied {
            Ok(outcome) if outcome.status < 300 => {
                total += outcome.charge;
                bytes += outcome.body.as_ref().map_or(0, String::len);
                results.push(result(request, &outcome));
            }
            Ok(outcome) => {
                let reason =
                    json!({ "statusCode": outcome.status, "requestCharge": outcome.charge });
                return Err(aborted(count, at, reason, total + outcome.charge));
            }
            Err(error) => {
                let charge = total + REFUSED;
                return Err(aborted(count, at, failure(&error), charge));
            }
        }
    }
    if bytes > MAX_RESPONSE_BYTES {
        let message = "The response of the batch is too large.";
        return Err(Response::error(&ServiceError::new(
            413,
            3402,
            "RequestEntityTooLarge",
            message,
        )));
    }
    Ok(Response::json(200, &Value::Array(results)).charged(total))
}

/// Returns the response of a failed batch: one operation has the reason, the others get 424.
/// Operations that were rolled back are charged.
fn aborted(count: usize, failed: usize, reason: Value, charge: f64) -> Response {
    let dependent = json!({ "statusCode": 424, "subStatusCode": 0, "requestCharge": 0.0 });
    let mut results = vec![dependent; count];
    results[failed] = reason;
    Response::json(207, &Value::Array(results)).charged(charge)
}

fn failure(error: &ServiceError) -> Value {
    let mut result = json!({
        "statusCode": error.status, "subStatusCode": error.substatus,
        "requestCharge": REFUSED, "message": error.message,
    });
    if let Some(after) = error.retry_after_ms {
        result["requestCharge"] = 0.0.into();
        result["retryAfterMilliseconds"] = after.into();
    }
    result
}

fn result(request: &Request, outcome: &Outcome) -> Value {
    let minimal =
        header(&request.headers, "prefer").is_some_and(|value| value.contains("return=minimal"));
    let mut result = json!({
        "statusCode": outcome.status, "subStatusCode": 0, "requestCharge": outcome.charge,
    });
    if let Some(etag) = &outcome.etag {
        result["eTag"] = etag.clone().into();
    }
    let is_read = outcome.status == 200 && !minimal;
    if let Some(body) = &outcome.body
        && (is_read || !minimal)
        && let Ok(body) = serde_json::from_str(body)
    {
        result["resourceBody"] = body;
    }
    result
}

/// Executes independent operations on one physical partition.
pub(in crate::op) fn bulk(service: &Service, request: &Request) -> Result<Response, ServiceError> {
    let operations = read(&request.body)?;
    let connection = service.store.lock();
    let container = container(&connection, request)?;
    let range =
        header(&request.headers, "x-ms-documentdb-partitionkeyrangeid").ok_or_else(|| {
            ServiceError::bad_request("A bulk request needs x-ms-documentdb-partitionkeyrangeid.")
        })?;
    let range = container.range(range)?;
    // One such key fails the whole request (azure-sdk-for-java#49409).
    let keys = operations
        .iter()
        .filter_map(|body| body.partition_key.as_deref());
    for key in keys.filter(|key| rules::is_key_too_long(key)) {
        key_of(key, &container)?;
    }
    let mut results = Vec::with_capacity(operations.len());
    let mut total = 0.0;
    // One commit for all operations: a commit is expensive in memory too, and its cost grows with
    // the data.
    let bulk = Savepoint::begin(&connection)?;
    for body in operations {
        let transaction = Savepoint::begin(&bulk)?;
        // Each operation is admitted by the budget on its own, so that only the operations beyond
        // it are rejected.
        match Access::write(service, &transaction, request, &container, vec![range]) {
            Ok(access) => {
                let (result, charge) = match one(service, &transaction, &container, range, body) {
                    Ok(outcome) => {
                        transaction.commit()?;
                        (result(request, &outcome), outcome.charge)
                    }
                    Err(error) => (failure(&error), REFUSED),
                };
                access.charge(charge);
                total += charge;
                results.push(result);
            }
            Err(error) => results.push(failure(&error)),
        }
    }
    bulk.commit()?;
    let failed = results
        .iter()
        .any(|result| result["statusCode"].as_u64() >= Some(400));
    let token = session::token([range], version::last_lsn(&connection)?);
    Ok(
        Response::json(if failed { 207 } else { 200 }, &Value::Array(results))
            .charged(total)
            .with("x-ms-session-token", token),
    )
}

fn one(
    service: &Service,
    connection: &Connection,
    container: &Container,
    range: &PhysicalRange,
    body: OperationBody,
) -> Result<Outcome, ServiceError> {
    let key = body.partition_key.as_deref().unwrap_or("[]");
    let key = key_of(key, container)?;
    let epk = container.epk(&key);
    if !range.holds(&epk) {
        return Err(ServiceError::range_gone());
    }
    let context = OperationContext {
        connection,
        container,
        replicas: &service.replicas,
        unique_key_answer: service.unique_key_answer(),
        partition_key: key,
        lsn: version::next_lsn(connection)?,
        at: 0,
        now: service.clock.now_secs(),
    };
    context.apply(body.into_operation()?)
}
