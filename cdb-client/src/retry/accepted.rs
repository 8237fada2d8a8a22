//! The accepted answer to a call.

use cdb_model::ETag;
use serde::Deserialize;

use crate::error::{CallDetails, Error, Result};
use crate::response::Response;

/// An accepted answer, and what the call took.
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
    /// As [`Response::json`]; a failure says of which call it is, as with all that follow.
    pub(crate) fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T> {
        self.response.json().map_err(|error| self.unusable(error))
    }

    /// As [`Response::text`].
    pub(crate) fn text(&self) -> Result<&str> {
        self.response.text().map_err(|error| self.unusable(error))
    }

    /// As [`Response::etag`].
    pub(crate) fn etag(&self) -> Result<ETag> {
        self.response.etag().map_err(|error| self.unusable(error))
    }

    /// That an accepted answer is of no use. A write was carried out then, whatever its answer looks like.
    pub(crate) fn unusable(&self, error: Error) -> Error {
        error.with_call(CallDetails {
            ambiguous: !self.call.operation.is_read(),
            ..self.call.clone()
        })
    }
}
