//! Why a call failed: its operation, the status of the answer, and the kind of the failure.

pub(crate) mod failure;
mod operation;
mod status;

pub use failure::CallDetails;
pub(crate) use failure::{ConflictCause, Error, ErrorKind, Result};
pub use operation::RequestKind;
pub use status::ResponseStatus;
