//! Several operations in one request: all or nothing in one partition, or each for itself in one physical partition.

use rusqlite::Connection;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::item::{partition_key, session_token};
use super::patch::Patch;
use super::write::{Condition, Operation, Outcome, Place};
use crate::error::ServiceError;
use crate::route::header;
use crate::service::{Answer, Asked, Service, now_secs};
use crate::store::{Container, catalog};
use crate::{charge, epk, rules};

/// Most operations of one request.
const MAX_OPERATIONS: usize = 100;

/// An operation as it is sent.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sent {
    operation_type: Kind,
    id: Option<String>,
    resource_body: Option<Value>,
    if_match: Option<String>,
    if_none_match: Option<String>,
    /// Of a bulk: the header's value, as a string.
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

impl Sent {
    fn operation(self) -> Result<Operation, ServiceError> {
        let condition = Condition {
            if_match: self.if_match,
            if_none_match: self.if_none_match,
        };
        let body = self.resource_body.unwrap_or_default();
        let id = self.id.unwrap_or_default();
        let document = |body: Value| -> Result<Map<String, Value>, ServiceError> {
            Ok(serde_json::from_value(body)?)
        };
        Ok(match self.operation_type {
            Kind::Create => Operation::Create(document(body)?),
            Kind::Upsert => Operation::Upsert(document(body)?, condition),
            Kind::Replace => Operation::Replace(id, document(body)?, condition),
            Kind::Patch => Operation::Patch(id, serde_json::from_value::<Patch>(body)?, condition),
            Kind::Delete => Operation::Delete(id, condition),
            Kind::Read => Operation::Read(id, condition),
        })
    }
}

fn read(asked: &Asked) -> Result<Vec<Sent>, ServiceError> {
    rules::size(asked.body.len())?;
    let operations: Vec<Sent> = serde_json::from_slice(&asked.body)?;
    if operations.is_empty() || operations.len() > MAX_OPERATIONS {
        return Err(ServiceError::bad_request(format!(
            "Batch request has {} operations; 1 to {MAX_OPERATIONS} are allowed.",
            operations.len()
        )));
    }
    Ok(operations)
}

/// A transactional batch.
pub(super) fn transactional(
    service: &Service,
    asked: &Asked,
    (db, coll): (&str, &str),
) -> Result<Answer, ServiceError> {
    let operations = read(asked)?;
    let mut connection = service.store.lock();
    let transaction = connection.savepoint()?;
    let container = Container::find(&transaction, db, coll)?;
    let place = Place {
        connection: &transaction,
        container: &container,
        partition_key: partition_key(&asked.headers, &container)?,
        lsn: catalog::next_lsn(&transaction)?,
        now: now_secs(),
    };
    let count = operations.len();
    let mut results = Vec::with_capacity(count);
    let mut total = 0.0;
    for (at, sent) in operations.into_iter().enumerate() {
        match sent
            .operation()
            .and_then(|operation| place.apply(operation))
        {
            Ok(outcome) if outcome.status < 300 => {
                total += outcome.charge;
                results.push(result(asked, &outcome));
            }
            Ok(outcome) => {
                return Ok(aborted(
                    count,
                    at,
                    json!({ "statusCode": outcome.status, "requestCharge": outcome.charge }),
                ));
            }
            Err(error) => return Ok(aborted(count, at, failure(&error))),
        }
    }
    let token = session_token(&container, &place);
    transaction.commit()?;
    Ok(Answer::json(200, &Value::Array(results))
        .charged(total)
        .with("x-ms-session-token", token))
}

/// One operation has its reason, all others depended on it. The transaction is rolled back when it is dropped.
fn aborted(count: usize, culprit: usize, reason: Value) -> Answer {
    let dependent = json!({ "statusCode": 424, "subStatusCode": 0, "requestCharge": 0.0 });
    let mut results = vec![dependent; count];
    results[culprit] = reason;
    Answer::json(207, &Value::Array(results)).charged(charge::REFUSED)
}

fn failure(error: &ServiceError) -> Value {
    json!({
        "statusCode": error.status, "subStatusCode": error.substatus,
        "requestCharge": charge::REFUSED, "message": error.message,
    })
}

fn result(asked: &Asked, outcome: &Outcome) -> Value {
    let minimal =
        header(&asked.headers, "prefer").is_some_and(|value| value.contains("return=minimal"));
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

/// Independent operations on one physical partition.
pub(super) fn bulk(
    service: &Service,
    asked: &Asked,
    (db, coll): (&str, &str),
) -> Result<Answer, ServiceError> {
    let operations = read(asked)?;
    let mut connection = service.store.lock();
    let container = Container::find(&connection, db, coll)?;
    let range = header(&asked.headers, "x-ms-documentdb-partitionkeyrangeid").ok_or_else(|| {
        ServiceError::bad_request("A bulk request needs x-ms-documentdb-partitionkeyrangeid.")
    })?;
    let range = container.range(range)?.clone();
    let mut results = Vec::with_capacity(operations.len());
    let mut total = 0.0;
    for sent in operations {
        let transaction = connection.savepoint()?;
        match one(&transaction, &container, &range.id, sent) {
            Ok(outcome) => {
                transaction.commit()?;
                total += outcome.charge;
                results.push(result(asked, &outcome));
            }
            Err(error) => {
                total += charge::REFUSED;
                results.push(failure(&error));
            }
        }
    }
    let failed = results
        .iter()
        .any(|result| result["statusCode"].as_u64() >= Some(400));
    let token = format!("{}:-1#{}", range.id, catalog::last_lsn(&connection)?);
    Ok(
        Answer::json(if failed { 207 } else { 200 }, &Value::Array(results))
            .charged(total)
            .with("x-ms-session-token", token),
    )
}

fn one(
    connection: &Connection,
    container: &Container,
    range: &str,
    sent: Sent,
) -> Result<Outcome, ServiceError> {
    let key = sent.partition_key.as_deref().unwrap_or("[]");
    let key = rules::partition_key_header(key)?;
    let epk = epk::effective_partition_key(&key);
    if container
        .range_of(&epk)
        .is_none_or(|found| found.id != range)
    {
        return Err(ServiceError::range_gone());
    }
    let place = Place {
        connection,
        container,
        partition_key: key,
        lsn: catalog::next_lsn(connection)?,
        now: now_secs(),
    };
    place.apply(sent.operation()?)
}
