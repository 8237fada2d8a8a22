//! The background tasks of a provider. Every task starts here, so that none outlives the handles to
//! the provider.
//!
//! A task may be dropped at any await, as in a crash of its process: a later poll or sweep finds
//! its unfinished work. So tasks can be stopped at any time.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

/// The tasks of one provider.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    /// Cancelled when no poll and no prelock may start any more; running tasks finish.
    closing: CancellationToken,
    /// Cancelled when running tasks must be dropped.
    stop: CancellationToken,
}

impl Tasks {
    /// Runs a background task, unless the provider has stopped.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if self.stop.is_cancelled() {
            return;
        }
        let until_stopped = self.stop.clone().run_until_cancelled_owned(work);
        // Background work of a turn belongs to its trace.
        self.tracker.spawn(until_stopped.in_current_span());
    }

    /// Prepares work that its caller may stop waiting for. It can ask the token whether the caller has.
    pub(crate) fn outliving<T, W>(&self, work: impl FnOnce(CancellationToken) -> W) -> Outliving<T>
    where
        T: Send + 'static,
        W: Future<Output = T> + Send + 'static,
    {
        let left = CancellationToken::new();
        Outliving {
            work: Some(Box::pin(work(left.clone()))),
            tasks: self.clone(),
            left,
        }
    }

    /// Asks polls and loops to start no new work. `spawn` still accepts tasks, which may finish.
    pub(crate) fn close(&self) {
        self.closing.cancel();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Returns the token that ends the loops of background tasks.
    pub(crate) fn closing(&self) -> CancellationToken {
        self.closing.clone()
    }

    /// Drops all running tasks.
    pub(crate) fn stop(&self) {
        self.closing.cancel();
        self.stop.cancel();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Waits until the provider stops.
    pub(crate) async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// Waits until all tasks have ended.
    pub(crate) async fn finished(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// Work that goes on as a background task when it is dropped: it may have sent a write whose consequences
/// nothing else in the process knows.
#[must_use = "it does nothing until it is awaited or dropped"]
pub(crate) struct Outliving<T: Send + 'static> {
    work: Option<BoxFuture<'static, T>>,
    tasks: Tasks,
    /// Cancelled when the caller no longer waits.
    left: CancellationToken,
}

impl<T: Send + 'static> Future for Outliving<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(work) = &mut self.work else {
            return Poll::Pending;
        };
        let result = ready!(work.as_mut().poll(context));
        self.work = None;
        Poll::Ready(result)
    }
}

impl<T: Send + 'static> Drop for Outliving<T> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        self.left.cancel();
        // Without a Tokio runtime nothing can go on, as in a crash.
        if Handle::try_current().is_ok() {
            self.tasks.spawn(async move {
                let _nobody_waits = work.await;
            });
        }
    }
}
