//! Why a call failed: its operation, the status of the answer, and the kind of the failure.

mod failure;
mod operation;
mod status;

pub(crate) use failure::Taken;
pub use failure::{CallDetails, Error, ErrorKind, Result};
pub use operation::OperationKind;
pub use status::Status;
