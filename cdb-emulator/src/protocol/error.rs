//! Errors in the service's form: status, sub-status, code, message.

use http::Method;
use serde_json::json;

/// An error response.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{status}/{substatus} {code}: {message}")]
pub(crate) struct ServiceError {
    pub(crate) status: u16,
    pub(crate) substatus: u32,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// The delay before a retry, in milliseconds.
    pub(crate) retry_after_ms: Option<u64>,
    /// `additionalErrorInfo` of the body: the query plan as JSON.
    pub(crate) plan: Option<Box<str>>,
}

impl ServiceError {
    pub(crate) fn new(
        status: u16,
        substatus: u32,
        code: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            status,
            substatus,
            code,
            message: message.into(),
            retry_after_ms: None,
            plan: None,
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, 0, "BadRequest", message)
    }

    /// The body of the request is not the expected JSON.
    pub(crate) fn invalid_payload(reason: impl std::fmt::Display) -> Self {
        Self::bad_request(format!("The request payload is invalid: {reason}"))
    }

    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(401, 0, "Unauthorized", message)
    }

    /// The item does not exist.
    pub(crate) fn not_found() -> Self {
        Self::new(
            404,
            0,
            "NotFound",
            "Entity with the specified id does not exist in the system.",
        )
    }

    /// The database or container does not exist.
    pub(crate) fn owner_not_found() -> Self {
        Self::new(404, 1003, "NotFound", "Owner resource does not exist.")
    }

    pub(crate) fn conflict() -> Self {
        Self::new(
            409,
            0,
            "Conflict",
            "Entity with the specified id already exists in the system.",
        )
    }

    pub(crate) fn precondition_failed() -> Self {
        Self::new(
            412,
            0,
            "PreconditionFailed",
            "Operation cannot be performed because one of the specified precondition is not met.",
        )
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, 0, "RequestEntityTooLarge", message)
    }

    /// The resource does not support the method; `allowed` names the methods that it supports.
    pub(crate) fn method_not_allowed(method: &Method, allowed: &str) -> Self {
        let message = format!("{method} is not allowed on this resource; use {allowed}.");
        Self::new(405, 0, "MethodNotAllowed", message)
    }

    /// The physical partition does not exist, or was split.
    pub(crate) fn range_gone() -> Self {
        Self::new(
            410,
            1002,
            "Gone",
            "The requested partition key range is gone.",
        )
    }

    /// The request needs the emulator to store or run a script.
    pub(crate) fn no_scripts() -> Self {
        Self::bad_request(
            "The emulator does not run scripts: it has no stored procedures, triggers or user-defined functions.",
        )
    }

    /// The emulator stops; the request may or may not have been executed.
    pub(crate) fn stopping() -> Self {
        let message = "The emulator is stopping.";
        Self::new(503, 0, "ServiceUnavailable", message)
    }

    /// The emulator failed; the request is valid.
    pub(crate) fn internal(cause: impl std::fmt::Display) -> Self {
        Self::new(500, 0, "InternalServerError", cause.to_string())
    }

    /// The throughput is exhausted.
    pub(crate) fn rate_too_large(retry_after_ms: u64) -> Self {
        let message = "Request rate is large. More Request Units may be needed, so no changes were made. Please \
                       retry this request later. Learn more: http://aka.ms/cosmosdb-error-429";
        Self {
            retry_after_ms: Some(retry_after_ms),
            ..Self::new(429, 3200, "429", message)
        }
    }

    /// The throughput of a bucket is exhausted, or there is no such bucket.
    pub(crate) fn bucket_exhausted(bucket: i64, retry_after_ms: u64) -> Self {
        let message = format!(
            "Throughput bucket {bucket} has used its share of the Request Units. Buckets have the ids 1 to 5."
        );
        Self {
            substatus: 3212,
            message,
            ..Self::rate_too_large(retry_after_ms)
        }
    }

    /// The account's budget of requests for metadata is exhausted (azure_data_cosmos_driver,
    /// `cosmos_status.rs`: 3210 is the request units of the master partition).
    pub(crate) fn too_much_metadata(retry_after_ms: u64) -> Self {
        Self {
            substatus: 3210,
            ..Self::rate_too_large(retry_after_ms)
        }
    }

    pub(crate) fn body(&self) -> Vec<u8> {
        let mut body = json!({ "code": self.code, "message": self.message });
        if let Some(plan) = &self.plan {
            body["additionalErrorInfo"] = (&**plan).into();
        }
        body.to_string().into_bytes()
    }
}

impl From<rusqlite::Error> for ServiceError {
    fn from(error: rusqlite::Error) -> Self {
        Self::internal(format_args!("storage: {error}"))
    }
}

/// For JSON that the emulator has stored or made. JSON of a request is an
/// [`invalid_payload`](ServiceError::invalid_payload).
impl From<serde_json::Error> for ServiceError {
    fn from(error: serde_json::Error) -> Self {
        Self::internal(format_args!("JSON of the emulator: {error}"))
    }
}
