//! Renews the leases of the owned partitions before they expire, because another coordinator may take a
//! partition whose lease has expired. The same rounds end claims that have timed out.
//!
//! Each renewal is a task of its own, so neither a partition without an answer nor another request
//! delays it. Writes to a partition renew its lease too.

use std::sync::{Arc, Weak};
use std::time::Duration;

use cdb_model::Patch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::round::next_round;
use crate::memory::inner::Inner;
use crate::streams::documents::WorkPartition;
use crate::telemetry;
use crate::timing::{RENEWED_AGAIN_IN, RENEWED_IN, renewal_timeout};

/// A lease to renew.
struct Due {
    index: u16,
    fence: u64,
    left: Duration,
}

/// Renews leases and ends claims that have timed out, until the coordinator is dropped.
pub(crate) async fn run(inner: Weak<Inner>, stop: CancellationToken) {
    while let Some(inner) = next_round(&inner, &stop).await {
        inner.fail_timed_out();
        for due in inner.due_leases() {
            tokio::spawn(inner.clone().renew_lease(due));
        }
    }
}

impl Inner {
    /// Returns the leases to renew that are not being renewed: those in their last third, and those of
    /// partitions that do not answer, because the answer to a renewal ends their silence.
    fn due_leases(&self) -> Vec<Due> {
        let (now, sent) = (self.container.now(), Instant::now());
        let lease = self.config.lease;
        let mut due = Vec::new();
        for (index, owned) in self.state().owned() {
            let left = owned.until.since(now);
            let is_sent = |at: Instant| sent.duration_since(at) < lease / RENEWED_AGAIN_IN;
            let is_due = left < lease / RENEWED_IN || self.is_silent(index);
            if is_due && !owned.renewed_at.is_some_and(is_sent) {
                owned.renewed_at = Some(sent);
                due.push(Due {
                    index,
                    fence: owned.fence,
                    left,
                });
            }
        }
        due
    }

    async fn renew_lease(self: Arc<Self>, Due { index, fence, left }: Due) {
        telemetry::lease_left(left);
        let until = self.container.now() + self.config.lease;
        let patch = Patch::<WorkPartition>::new()
            .set(WorkPartition::UNTIL, until)
            .when(WorkPartition::FENCE.eq(fence));
        let key = self.lease_key(index);
        let renewal = self.container.run(patch.at(&key));
        match timeout(renewal_timeout(self.config.lease), renewal).await {
            Ok(Ok(_)) => {
                telemetry::lease("renewed");
                let mut state = self.state();
                let owned = state.partition(index).owned.as_mut();
                if let Some(owned) = owned.filter(|owned| owned.fence == fence) {
                    owned.until = owned.until.max(until);
                }
            }
            Ok(Err(error)) if error.is_precondition_failed() || error.is_not_found() => {
                self.lose(index, fence);
            }
            Ok(Err(error)) => {
                tracing::warn!(index, %error, "the lease of a partition was not renewed");
            }
            Err(_) => tracing::warn!(index, "the renewal of a lease had no answer"),
        }
    }
}
