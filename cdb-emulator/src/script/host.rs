//! The messages between a script and the emulator.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::ServiceError;
use crate::store::NamedResource;

/// The text of a script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) id: &'a str,
    pub(crate) body: &'a str,
}

impl<'a> Source<'a> {
    /// Returns the text of a stored script.
    pub(crate) fn of(stored: &'a NamedResource) -> Self {
        Self {
            id: &stored.id,
            body: stored.definition["body"].as_str().unwrap_or_default(),
        }
    }
}

/// What a script sees of its request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Setup<'a> {
    /// The links of the container: by resource ids with a slash at the end, and by names without.
    pub(crate) self_link: String,
    pub(crate) alt_link: String,
    /// The body of the request.
    pub(crate) request: &'a Value,
    /// Whether the script can replace the body of the request: only a pre-trigger can.
    pub(crate) changes_request: bool,
    /// The operation of a trigger.
    pub(crate) operation: Option<&'static str>,
    /// The body of the response: null for a stored procedure, absent for a pre-trigger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) response: Option<&'a Value>,
    /// Whether `console.log` writes into the response.
    pub(crate) logs: bool,
}

/// An operation of a script on the documents of its partition key.
#[derive(Debug, Deserialize)]
#[serde(
    tag = "operation",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub(crate) enum Call {
    Create {
        document: String,
    },
    Upsert {
        document: String,
        etag: Option<String>,
    },
    Replace {
        link: Link,
        document: String,
        etag: Option<String>,
    },
    Patch {
        link: Link,
        operations: Value,
        etag: Option<String>,
    },
    Delete {
        link: Link,
        etag: Option<String>,
    },
    Read {
        link: Link,
        if_none_match: Option<String>,
    },
    Query(QueryCall),
}

/// A page of a query.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueryCall {
    /// The body of a query request.
    pub(crate) query: Value,
    pub(crate) continuation: Option<String>,
    pub(crate) page_size: f64,
}

/// A document by the name in its link.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Link {
    Id(String),
    Rid(String),
}

/// The result of an operation.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Reply {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
    /// A document or the rows of a query.
    resource: Value,
    options: Value,
    /// The documents that a query read.
    #[serde(skip)]
    pub(crate) examined: usize,
}

impl Reply {
    /// Returns the reply of a successful operation.
    pub(crate) fn new(resource: Value, options: Value) -> Self {
        Self {
            error: None,
            resource,
            options,
            examined: 0,
        }
    }

    /// Returns the reply that reports an error to the callback.
    pub(crate) fn error(error: &ServiceError) -> Self {
        let body = json!({ "Errors": [error.message] }).to_string();
        Self {
            error: Some(json!({ "number": error.status, "body": body })),
            ..Self::default()
        }
    }
}

/// Executes the operations of a script.
pub(crate) trait Host {
    /// Executes an operation. Errors below 500 go to the callback, others end the script.
    fn call(&mut self, call: Call) -> Result<Reply, ServiceError>;
}

/// The messages after a script; `None` for an undefined body.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Messages {
    pub(crate) request: Option<Value>,
    pub(crate) response: Option<Value>,
}

/// The end of a script.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) result: Result<Messages, ServiceError>,
    /// The text of `console.log`.
    pub(crate) log: String,
}
