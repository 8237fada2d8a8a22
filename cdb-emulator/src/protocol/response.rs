//! A response before it is sent.

use serde::Serialize;
use serde_json::{Value, json};

use super::error::ServiceError;

/// The content type of JSON.
pub(crate) const JSON: &str = "application/json";

/// The charge of a rejected request.
pub(crate) const REFUSED: f64 = 1.0;

/// A response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// Request units.
    pub(crate) charge: f64,
}

impl Response {
    /// Returns a response with a JSON body.
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self {
            status,
            body: body.to_string().into_bytes(),
            ..Self::default()
        }
    }

    /// Returns a response with status 200, a typed JSON body and its content type.
    pub(crate) fn typed<T: Serialize>(body: &T) -> Result<Self, ServiceError> {
        let response = Self {
            status: 200,
            body: serde_json::to_vec(body)?,
            ..Self::default()
        };
        Ok(response.with("content-type", JSON))
    }

    /// Returns a response without a body.
    pub(crate) fn empty(status: u16) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }

    /// Returns a list of resources. `rid` is the resource id of their parent.
    pub(crate) fn list(name: &str, rid: &str, items: Vec<Value>) -> Self {
        let count = items.len();
        let items = Value::Array(items);
        Self::json(200, &json!({ "_rid": rid, name: items, "_count": count }))
            .with("x-ms-item-count", count.to_string())
    }

    /// Returns the response that reports an error.
    pub(crate) fn error(error: &ServiceError) -> Self {
        let mut response = Self {
            status: error.status,
            body: error.body(),
            // A request that exceeds the budget is not charged to it.
            charge: if error.status == 429 { 0.0 } else { REFUSED },
            ..Self::default()
        };
        if error.substatus != 0 {
            response = response.with("x-ms-substatus", error.substatus.to_string());
        }
        if let Some(after) = error.retry_after_ms {
            response = response.with("x-ms-retry-after-ms", after.to_string());
        }
        response
    }

    /// Adds a header.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sets the charge.
    pub(crate) fn charged(mut self, charge: f64) -> Self {
        self.charge = charge;
        self
    }
}
