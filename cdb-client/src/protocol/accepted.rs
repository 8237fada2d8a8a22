//! The accepted answer to a call.

use cdb_model::ETag;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::{CallDetails, Error, Result};
use crate::protocol::{OperationResult, Response};

/// An accepted answer, and the details of its call.
#[derive(Clone, Debug)]
pub(crate) struct Accepted {
    pub response: Response,
    pub call: CallDetails,
}

impl std::ops::Deref for Accepted {
    type Target = Response;

    fn deref(&self) -> &Response {
        &self.response
    }
}

impl Accepted {
    /// As [`Response::json`], with the details of the call in the error.
    pub(crate) fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T> {
        self.response.json().map_err(|error| self.unusable(error))
    }

    /// As [`Response::metadata`], with the details of the call in the error.
    pub(crate) fn metadata<T: DeserializeOwned>(&self) -> Result<T> {
        let read = self.response.metadata();
        read.map_err(|error| self.unusable(error))
    }

    /// As [`Response::text`], with the details of the call in the error.
    pub(crate) fn text(&self) -> Result<&str> {
        self.response.text().map_err(|error| self.unusable(error))
    }

    /// The results of a batch of `count` operations.
    pub(crate) fn results(&self, count: usize) -> Result<Vec<OperationResult>> {
        let results: Vec<OperationResult> = self.json()?;
        if results.len() == count {
            return Ok(results);
        }
        let message = format!("{} results for {count} operations", results.len());
        Err(self.unusable(Error::protocol(message)))
    }

    /// As [`Response::etag`], with the details of the call in the error.
    pub(crate) fn etag(&self) -> Result<ETag> {
        self.response.etag().map_err(|error| self.unusable(error))
    }

    /// Adds the details of the call to an error about the answer. A write is then ambiguous for the
    /// caller: it was executed, although its answer cannot be used.
    pub(crate) fn unusable(&self, error: Error) -> Error {
        error.with_call(CallDetails {
            ambiguous: !self.call.operation.is_read(),
            ..self.call.clone()
        })
    }
}
