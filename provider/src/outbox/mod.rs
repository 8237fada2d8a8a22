//! Messages between instances: committed by their sender, then delivered at once or by the
//! reconciler.
//!
//! An intent is delivered when every target document exists or has existed. A second delivery
//! conflicts with the documents or traces of the first, and changes nothing.

mod activities;
mod backoff;
mod cancelled;
mod dead_letters;
mod deadline;
mod deliver;
mod documents;
mod find;
mod intent;
mod messages;
mod reconcile;
mod relay;
mod remove;
mod search;

use cdb_client::ErrorKind;
use cdb_coordination::Undelivered;

use crate::error::Error;

pub(crate) use backoff::Backoff;
pub(crate) use deliver::{deliver_all, deliver_before_deletion};
pub(crate) use documents::Documents;
pub(crate) use intent::Outbox;
pub(crate) use reconcile::run as reconcile;
pub(crate) use search::IntentSearch;

impl From<&Error> for Undelivered {
    /// Counts undecodable values as an attempt, because a newer version that is being deployed may
    /// decode them.
    fn from(error: &Error) -> Self {
        match error {
            Error::Request(request) if request.kind() != ErrorKind::Decode => Self::from(request),
            error if error.is_retryable() => Self::unreachable(error.to_string()),
            error => Self::refused(error.to_string()),
        }
    }
}
