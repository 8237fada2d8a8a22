//! Messages between instances: committed by their sender, delivered afterwards, at once or by the reconciler.
//!
//! Delivered means that every target document exists or existed. Whatever is delivered twice conflicts with what the
//! first delivery left, and changes nothing.

mod activities;
mod cancelled;
mod carrier;
mod deliver;
mod documents;
mod given_up;
mod intent;
mod messages;
mod reconcile;
mod remove;

use cdb_client::ErrorKind;
use cdb_coordination::Undelivered;

use crate::error::Error;

pub(crate) use deliver::deliver_all;
pub(crate) use documents::Documents;
pub(crate) use intent::Outbox;
pub(crate) use reconcile::run as reconcile;

impl From<&Error> for Undelivered {
    /// Values that cannot be read or written count as an attempt: a newer program, which is just being deployed, may be
    /// able to read them.
    fn from(error: &Error) -> Self {
        match error {
            Error::Request(request) if request.kind() != ErrorKind::Decode => Self::from(request),
            error if error.is_retryable() => Self::unreachable(error.to_string()),
            error => Self::refused(error.to_string()),
        }
    }
}
