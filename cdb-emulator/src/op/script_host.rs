//! The operations of scripts on documents: all in one transaction and one partition key.

use std::collections::HashMap;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use super::patch::Patch;
use super::query::query_in_script;
use super::write::{Condition, Operation, OperationContext};
use crate::charge;
use crate::error::ServiceError;
use crate::request::Request;
use crate::response::Response;
use crate::rules;
use crate::script::{Call, Host, Link, QueryCall, Reply};
use crate::service::Service;

/// Executes the operations of a script.
pub(super) struct ScriptHost<'a, 'c> {
    service: &'a Service,
    context: &'a mut OperationContext<'c>,
    /// The ids of documents by their resource ids, once a link names one.
    ids: Option<HashMap<String, String>>,
    /// The request units of all operations.
    pub(super) charge: f64,
}

impl<'a, 'c> ScriptHost<'a, 'c> {
    pub(super) fn new(service: &'a Service, context: &'a mut OperationContext<'c>) -> Self {
        Self {
            service,
            context,
            ids: None,
            charge: 0.0,
        }
    }

    /// Executes an operation on one document, in a savepoint: a script can go on after a failure,
    /// which must leave nothing behind.
    fn apply(&mut self, operation: Operation) -> Result<Reply, ServiceError> {
        let connection = self.context.connection;
        let execute = |sql: &str| -> Result<(), ServiceError> {
            connection.prepare_cached(sql)?.execute([])?;
            Ok(())
        };
        execute("SAVEPOINT script_operation")?;
        let outcome = self.context.apply(operation);
        if outcome.is_err() {
            execute("ROLLBACK TO script_operation")?;
        }
        execute("RELEASE script_operation")?;
        self.context.advance()?;
        let charge = outcome.as_ref().map(|outcome| outcome.charge);
        self.charge += charge.unwrap_or(charge::REFUSED);
        let outcome = outcome.map_err(in_script)?;
        let resource: Value = match &outcome.body {
            Some(body) => serde_json::from_str(body)?,
            None => Value::Null,
        };
        if let (Some(ids), Some(rid)) = (&mut self.ids, resource["_rid"].as_str()) {
            let id = resource["id"].as_str().unwrap_or_default();
            ids.insert(rid.to_owned(), id.to_owned());
        }
        let options = json!({ "statusCode": outcome.status, "notModified": outcome.status == 304 });
        Ok(Reply::new(resource, options))
    }

    /// Executes a query.
    fn query(&mut self, query: &QueryCall) -> Result<Reply, ServiceError> {
        let request = request(query, &self.context.pk())?;
        let store = (self.context.connection, self.context.container);
        let response = query_in_script(self.service, store, &request)?;
        self.charge += response.charge;
        let mut body: Value = serde_json::from_slice(&response.body)?;
        let mut options = json!({ "statusCode": 200 });
        if let Some(continuation) = header(&response, "x-ms-continuation") {
            options["continuation"] = continuation.into();
        }
        let mut reply = Reply::new(body["Documents"].take(), options);
        reply.examined = response.examined;
        Ok(reply)
    }

    /// Returns the id of the document that a link names.
    fn id(&mut self, link: Link) -> Result<String, ServiceError> {
        let rid = match link {
            Link::Id(id) => return Ok(id),
            Link::Rid(rid) => rid,
        };
        if self.ids.is_none() {
            let context = &*self.context;
            let ids = context
                .container
                .ids_by_rid(context.connection, &context.pk())?;
            self.ids = Some(ids);
        }
        let known = self.ids.as_ref().and_then(|ids| ids.get(&rid));
        known.cloned().ok_or_else(ServiceError::not_found)
    }
}

impl Host for ScriptHost<'_, '_> {
    fn call(&mut self, call: Call) -> Result<Reply, ServiceError> {
        let operation = match call {
            Call::Create { document } => Operation::Create(parsed(&document)?),
            Call::Upsert { document, etag } => {
                Operation::Upsert(parsed(&document)?, if_match(etag))
            }
            Call::Replace {
                link,
                document,
                etag,
            } => Operation::Replace(self.id(link)?, parsed(&document)?, if_match(etag)),
            Call::Patch {
                link,
                operations,
                etag,
            } => Operation::Patch(self.id(link)?, Patch::read(operations)?, if_match(etag)),
            Call::Delete { link, etag } => Operation::Delete(self.id(link)?, if_match(etag)),
            Call::Read {
                link,
                if_none_match,
            } => {
                let condition = Condition {
                    if_none_match,
                    ..Condition::default()
                };
                Operation::Read(self.id(link)?, condition)
            }
            Call::Query(query) => return self.query(&query),
        };
        self.apply(operation)
    }
}

/// Returns the request of a client for the same page of a query.
fn request(query: &QueryCall, pk: &str) -> Result<Request, ServiceError> {
    let mut headers = HeaderMap::new();
    // A page size below one leaves the size to the service.
    let size = if query.page_size >= 1.0 {
        query.page_size.min(1e6).trunc().to_string()
    } else {
        "-1".to_owned()
    };
    let continuation = query.continuation.as_deref().unwrap_or_default();
    for (name, value) in [
        ("x-ms-documentdb-partitionkey", &*ascii(pk)),
        ("x-ms-max-item-count", &size),
        ("x-ms-continuation", continuation),
    ] {
        let value = HeaderValue::from_str(value)
            .map_err(|_| ServiceError::bad_request(format!("The value of '{name}' is invalid.")))?;
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(Request {
        headers,
        body: Bytes::from(serde_json::to_vec(&query.query)?),
        ..Request::default()
    })
}

/// Returns JSON without the characters that a header cannot contain.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c < '\u{7f}' {
            text.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                text.extend(["\\u", &*format!("{unit:04x}")]);
            }
        }
    }
    text
}

fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
    let found = response.headers.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| &**value)
}

/// Returns the error in the words that the service uses in scripts.
fn in_script(error: ServiceError) -> ServiceError {
    if error.substatus != 1001 {
        return error;
    }
    ServiceError::bad_request(
        "Requests originating from scripts cannot reference partition keys other than the one for which client request \
         was submitted.",
    )
}

fn parsed(document: &str) -> Result<Map<String, Value>, ServiceError> {
    rules::size(document.len())?;
    Ok(serde_json::from_str(document)?)
}

fn if_match(etag: Option<String>) -> Condition {
    Condition {
        if_match: etag.filter(|etag| !etag.is_empty()),
        ..Condition::default()
    }
}
