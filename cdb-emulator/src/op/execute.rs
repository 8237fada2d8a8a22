//! Execution of stored procedures: one transaction in one partition key.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::access::Access;
use super::item::{partition_key, range_of_key};
use super::script_host::ScriptHost;
use super::target::container;
use super::write::OperationContext;
use crate::charge;
use crate::error::ServiceError;
use crate::request::Request;
use crate::response::Response;
use crate::route::{Scripts, flag};
use crate::rules;
use crate::script::{self, Ended, Setup, Source};
use crate::service::Service;
use crate::store::{NamedResource, Savepoint, version};

/// Maximum size of the response in bytes (concepts-limits).
const MOST_RESPONSE: usize = 4 * 1024 * 1024;

/// Executes `POST …/sprocs/{id}` with an array of parameters.
pub(super) fn execute(
    service: &Service,
    request: &Request,
    (db, coll): (&str, &str),
    id: &str,
) -> Result<Response, ServiceError> {
    script::require()?;
    rules::size(request.body.len())?;
    let parameters = parameters(&request.body)?;
    let connection = service.store.lock();
    let transaction = Savepoint::begin(&connection)?;
    let container = container(&transaction, request, (db, coll))?;
    let parent = container.scripts(Scripts::Procedures.segment());
    let procedure = NamedResource::find(&transaction, &parent, id)?;
    let partition_key = partition_key(&request.headers, &container)?;
    let ranges = range_of_key(&container, &partition_key);
    let access = Access::write(service, &transaction, request, &container, ranges)?;
    let mut context = OperationContext {
        connection: &transaction,
        container: &container,
        replicas: &service.replicas,
        partition_key,
        lsn: version::next_lsn(&transaction)?,
        at: 0,
        now: service.clock.now_secs(),
    };
    let mut host = ScriptHost::new(service, &mut context);
    let setup = Setup {
        self_link: container.self_link(),
        alt_link: format!("dbs/{db}/colls/{coll}"),
        request: &Value::Array(parameters.clone()),
        changes_request: false,
        operation: None,
        response: Some(&Value::Null),
        logs: flag(&request.headers, "x-ms-documentdb-script-enable-logging"),
    };
    let Ended { result, log } = script::run(Source::of(&procedure), &setup, &parameters, &mut host);
    let charge = host.charge + charge::SCRIPT;
    let lsn = context.lsn;
    let response = result.and_then(|messages| response(messages.response));
    let (response, lsn) = match response {
        Ok(response) => {
            transaction.commit()?;
            (response, lsn)
        }
        Err(error) if error.status >= 500 => return Err(error),
        Err(error) => {
            drop(transaction);
            (Response::error(&error), version::last_lsn(&connection)?)
        }
    };
    let mut response = response.charged(charge);
    if setup.logs {
        let log = utf8_percent_encode(&log, NON_ALPHANUMERIC).to_string();
        response = response.with("x-ms-documentdb-script-log-results", log);
    }
    Ok(access.end(response, lsn))
}

/// Reads the parameters. Some clients send no body when there are none.
fn parameters(body: &[u8]) -> Result<Vec<Value>, ServiceError> {
    if body.is_empty() {
        return Ok(Vec::new());
    }
    Ok(serde_json::from_slice(body)?)
}

/// Returns the response with the body that a procedure set; an undefined body is empty.
fn response(body: Option<Value>) -> Result<Response, ServiceError> {
    let Some(body) = body else {
        return Ok(Response::empty(200));
    };
    let response = Response::json(200, &body);
    if response.body.len() > MOST_RESPONSE {
        return Err(ServiceError::too_large(
            "The response of the stored procedure is too large; return a part of it and a continuation.",
        ));
    }
    Ok(response)
}
