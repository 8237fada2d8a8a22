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
mod messages;
mod reconcile;
mod remove;

use cdb_client::Error;
use cdb_model::BatchError;
use duroxide::providers::ProviderError;

pub(crate) use deliver::{Outbox, deliver_all};
pub(crate) use documents::Documents;
pub(crate) use reconcile::run as reconcile;

/// Why an intent was not delivered; it stays, and is tried again as its kind of failure deserves.
#[derive(Debug)]
pub(crate) enum Undelivered {
    Unreadable(serde_json::Error),
    Damaged(String),
    Unread(ProviderError),
    Unfit(BatchError),
    Failed(Error),
    Unanswered,
    /// It cancels an activity that an earlier intent is still to create.
    Early,
}

impl std::fmt::Display for Undelivered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreadable(error) => error.fmt(f),
            Self::Damaged(reason) => f.write_str(reason),
            Self::Unread(error) => error.fmt(f),
            Self::Unfit(error) => error.fmt(f),
            Self::Failed(error) => error.fmt(f),
            Self::Unanswered => f.write_str("the service did not answer"),
            Self::Early => {
                f.write_str("an activity that it cancels is still to be delivered itself")
            }
        }
    }
}

impl From<serde_json::Error> for Undelivered {
    fn from(error: serde_json::Error) -> Self {
        Self::Unreadable(error)
    }
}

impl From<Undelivered> for cdb_coordination::Undelivered {
    /// What cannot be read or written is tried again too before it is given up: it may be the fault of a program that is
    /// being replaced.
    fn from(failure: Undelivered) -> Self {
        match &failure {
            Undelivered::Failed(error) => Self::from(error),
            Undelivered::Unanswered | Undelivered::Early => Self::unreachable(failure.to_string()),
            Undelivered::Unread(error) if error.is_retryable() => {
                Self::unreachable(failure.to_string())
            }
            Undelivered::Unreadable(_)
            | Undelivered::Damaged(_)
            | Undelivered::Unread(_)
            | Undelivered::Unfit(_) => Self::refused(failure.to_string()),
        }
    }
}
