//! Requests about the leases of runtimes.

use std::time::Duration;

use cdb_client::{ContainerClient, Error};
use cdb_model::{Document as _, Timestamp};

use crate::queue::limits::protocol::{LeaseAnswer, LeaseDocument, LeaseRequest, RuntimeId, Time};
use crate::stored::documents::{Durable, RuntimeLease};

/// Sends a request.
///
/// # Errors
/// When the outcome is unknown. Sending the request again is harmless.
pub(super) async fn send(
    container: &ContainerClient<Durable>,
    request: &LeaseRequest,
) -> Result<LeaseAnswer, Error> {
    let (id, lease) = match request {
        LeaseRequest::Renew { id, until, .. } => {
            (id, RuntimeLease::new(id, timestamp_of(*until), false))
        }
        LeaseRequest::Fence(id, until) => (id, RuntimeLease::new(id, timestamp_of(*until), true)),
    };
    let key = RuntimeLease::key_of(id);
    let (patch, creates) = match request {
        LeaseRequest::Renew { is_first, .. } => (
            key.patch()
                .set(RuntimeLease::UNTIL, lease.until)
                .when_eq(RuntimeLease::IS_DEAD, false)
                // A late copy of an earlier renewal does not shorten it.
                .when_lt(RuntimeLease::UNTIL, lease.until),
            *is_first,
        ),
        LeaseRequest::Fence(_, until) => (
            key.patch()
                .set(RuntimeLease::IS_DEAD, true)
                .when_eq(RuntimeLease::UNTIL, lease.until),
            until.is_zero(),
        ),
    };
    if creates {
        match container.run(lease.create()).await {
            Err(error) if error.is_conflict() => {}
            written => return written.map(|_| LeaseAnswer::Written),
        }
    }
    match container.run(patch).await {
        Ok(_) => Ok(LeaseAnswer::Written),
        Err(error) if error.is_precondition_failed() || error.is_not_found() => {
            refused(container, request, error).await
        }
        Err(error) => Err(error),
    }
}

/// Finds out whether a refused request has a lasting reason.
async fn refused(
    container: &ContainerClient<Durable>,
    request: &LeaseRequest,
    error: Error,
) -> Result<LeaseAnswer, Error> {
    let (LeaseRequest::Renew { id, .. } | LeaseRequest::Fence(id, _)) = request;
    let (container, key) = (container.latest_committed(), RuntimeLease::key_of(id));
    let stored = container.read(&key).await?;
    let is_dead = stored.is_none_or(|stored| stored.document.is_dead);
    match request {
        LeaseRequest::Renew { .. } if is_dead => Ok(LeaseAnswer::Refused),
        // The renewal was applied, and its answer was lost.
        LeaseRequest::Renew { .. } => Err(error),
        LeaseRequest::Fence(..) if is_dead => Ok(LeaseAnswer::Written),
        LeaseRequest::Fence(..) => Ok(LeaseAnswer::Refused),
    }
}

/// Returns the end of a lease that has ended by any clock, and whether it is marked as dead.
///
/// # Errors
/// When the lease cannot be read.
pub(super) async fn ended(
    container: &ContainerClient<Durable>,
    id: &RuntimeId,
    now: Timestamp,
) -> Result<Option<(Time, bool)>, Error> {
    let stored = container.read(&RuntimeLease::key_of(id)).await?;
    let lease = stored.map_or_else(LeaseDocument::default, |stored| LeaseDocument {
        until: time_of(stored.document.until),
        is_dead: stored.document.is_dead,
    });
    let ended = Some((lease.until, lease.is_dead));
    Ok(ended.filter(|_| lease.has_ended(time_of(now))))
}

/// Returns a time of the service, as the protocol has it.
pub(super) fn time_of(at: Timestamp) -> Time {
    Duration::from_millis(at.as_millis())
}

fn timestamp_of(at: Time) -> Timestamp {
    Timestamp::from_millis(u64::try_from(at.as_millis()).unwrap_or(u64::MAX))
}
