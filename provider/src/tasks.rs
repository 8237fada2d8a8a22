//! What runs for a provider without being awaited. Everything is started through here, so that nothing outlives the
//! handles to the provider.
//!
//! A task may be dropped at any await, as if its process had crashed: what it leaves undone is found by whoever looks
//! next. So ending them needs nobody's consent.

use std::future::Future;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

/// The tasks of one provider.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    /// Nothing new is begun: no polls, no locks ahead. What was begun is finished.
    closing: CancellationToken,
    /// Nothing is finished either.
    stop: CancellationToken,
}

impl Tasks {
    /// Runs something that nobody waits for, unless everything has ended.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if self.stop.is_cancelled() {
            return;
        }
        let stop = self.stop.clone();
        let until_stopped = async move {
            // Dropped half-way or not, nobody waits for it.
            let _done = stop.run_until_cancelled(work).await;
        };
        // What follows from a turn belongs to its trace.
        self.tracker.spawn(until_stopped.in_current_span());
    }

    /// Begins nothing new from now on.
    pub(crate) fn close(&self) {
        self.closing.cancel();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// For loops: when to end.
    pub(crate) fn closing(&self) -> CancellationToken {
        self.closing.clone()
    }

    /// Drops what still runs.
    pub(crate) fn stop(&self) {
        self.closing.cancel();
        self.stop.cancel();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// When everything has been dropped.
    pub(crate) async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// Waits until nothing runs any more.
    pub(crate) async fn finished(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}
