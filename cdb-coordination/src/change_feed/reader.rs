//! Reads one part of a feed under its lease.

use std::sync::Arc;
use std::time::Duration;

use cdb_client::feed::{ChangeFeed, ChangeRow};
use cdb_model::{Batch, Container, Document as _, Patch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::documents::{ChangeFeedState, PartDocument, PartFailure};
use super::settings::{ChangeHandlerError, Settings};
use super::telemetry::{PartMetrics, oldest};
use crate::lease::{LeaseError, LeaseGuard};
use crate::message::catch_panic;
use crate::retry::shortened;
use crate::timing::{LAG_INTERVAL, SHORTEST_RENEWAL_PAUSE};

/// The most parts that replace one: so many documents fit into a batch with the divided one.
const MOST_PARTS: usize = 90;

type Guard = LeaseGuard<ChangeFeedState, PartDocument>;

/// The result of reading a page.
enum Step {
    /// The page was handled; more may follow.
    Handled,
    /// There are no changes.
    AtEnd,
    /// The page is read again after this time.
    Failed(Duration),
    /// The page was handled, and other parts replace this one.
    Divided,
}

/// The reader of a part.
pub(super) struct Reader<C, R> {
    settings: Arc<Settings<C, R>>,
    guard: Guard,
    feed: ChangeFeed<C, R>,
    metrics: PartMetrics,
    /// Failed attempts since the last success.
    failures: u32,
    /// Whether the part's document has a failure, or may have one.
    is_failure_stored: bool,
}

impl<C: Container, R: ChangeRow<C>> Reader<C, R> {
    pub(super) fn new(settings: Arc<Settings<C, R>>, guard: Guard) -> Self {
        let part = guard.document();
        Self {
            feed: settings.resume(part.cursor.clone()),
            metrics: PartMetrics::new(&part.processor, &part.borders),
            failures: part.failure.as_ref().map_or(0, |last| last.attempts),
            is_failure_stored: part.failure.is_some(),
            settings,
            guard,
        }
    }

    /// Reads and handles changes until `stop` is cancelled or other parts replace this one. A handler
    /// that runs then finishes first.
    ///
    /// # Errors
    /// When the lease is lost or cannot be written.
    pub(super) async fn run(mut self, stop: CancellationToken) -> Result<(), LeaseError> {
        while !stop.is_cancelled() {
            let pause = match self.handle_next().await? {
                Step::Divided => return Ok(()),
                Step::Handled => continue,
                Step::AtEnd => self.settings.config.poll_interval,
                Step::Failed(delay) => delay,
            };
            // The end of the pause does not interrupt a renewal: a write of the lease with an unknown
            // outcome could not be released.
            renewing(&mut self.guard, stop.run_until_cancelled(sleep(pause))).await?;
        }
        self.guard.release().await
    }

    /// Handles the changes of the next page and stores the position after them.
    async fn handle_next(&mut self) -> Result<Step, LeaseError> {
        let before = self.feed.cursor().clone();
        let page = match renewing(&mut self.guard, self.feed.next_page()).await? {
            Ok(page) => page,
            Err(error) => {
                return self.failed("cannot read the change feed", &error).await;
            }
        };
        let count = page.rows.len();
        if let Err(error) = self.handle_all(page.rows).await? {
            self.feed = self.settings.resume(before);
            return self.failed("the handler of changes failed", &*error).await;
        }
        self.failures = 0;
        // The position at the end moves too. It is stored when it is the first one, which decides
        // where `FeedStart::Now` is, or when it divides the part.
        let is_stored = !page.is_end
            || !before.is_started()
            || self.is_failure_stored
            || self.feed.cursor().parts(2).len() > 1;
        let is_divided = is_stored && self.store().await?;
        self.metrics.handled(count);
        Ok(match (is_divided, page.is_end) {
            (true, _) => Step::Divided,
            (false, true) => Step::AtEnd,
            (false, false) => Step::Handled,
        })
    }

    /// Runs the handler until all changes are handled. The first page of a feed has changes of all
    /// physical partitions, and the handler receives at most `page_size` at once.
    async fn handle_all(
        &mut self,
        rows: Vec<R>,
    ) -> Result<Result<(), ChangeHandlerError>, LeaseError> {
        let most = self.settings.config.page_size.max(1) as usize;
        let mut rows = rows.into_iter();
        loop {
            let handled = self.handle(rows.by_ref().take(most).collect()).await?;
            if handled.is_err() || rows.len() == 0 {
                return Ok(handled);
            }
        }
    }

    /// Runs the handler, unless there are no changes. A panic counts as an error.
    async fn handle(&mut self, rows: Vec<R>) -> Result<Result<(), ChangeHandlerError>, LeaseError> {
        let source = &self.settings.source;
        let Some(oldest) = oldest::<C, R>(&rows) else {
            self.metrics.set_lag(Duration::ZERO);
            return Ok(Ok(()));
        };
        let handled = catch_panic(async { (self.settings.handler)(rows).await });
        let lag = || self.metrics.set_lag(source.now().since(oldest));
        let handled = renewing(&mut self.guard, at_intervals(lag, handled)).await?;
        Ok(handled.unwrap_or_else(|panic| Err(panic.into())))
    }

    /// Stores the position. A write that fails is repeated until the lease expires: another reader
    /// would handle the changes again. Returns whether other parts replace this one.
    async fn store(&mut self) -> Result<bool, LeaseError> {
        loop {
            match self.try_store().await {
                Err(error) if !is_final(&error) && !self.guard.remaining().is_zero() => {
                    self.note_failure("cannot store the position", &error);
                    let delay = self.settings.retry_delay(self.failures);
                    sleep(delay.min(self.guard.remaining())).await;
                }
                stored => {
                    self.failures = 0;
                    return stored;
                }
            }
        }
    }

    /// Stores the position, or the parts that replace this one if it covers several physical
    /// partitions.
    async fn try_store(&mut self) -> Result<bool, LeaseError> {
        let cursor = self.feed.cursor();
        let parts = cursor.parts(MOST_PARTS);
        if parts.len() < 2 {
            let mut moved = Patch::new().set(PartDocument::CURSOR, cursor.clone());
            if self.is_failure_stored {
                moved = moved.set(PartDocument::FAILURE, None);
            }
            let moved = self.with_source(moved);
            self.guard.run(moved).await?;
            self.is_failure_stored = false;
            return Ok(false);
        }
        let divided = Patch::new().set(PartDocument::DIVIDED, true);
        let part = self.guard.document();
        let mut batch = Batch::new(part.partition_key());
        for cursor in parts {
            let part = PartDocument {
                source: Some(Box::new(self.settings.feed_source())),
                ..PartDocument::new(&part.processor, part.generation, cursor)
            };
            batch.add(part.create())?;
        }
        self.guard.try_release_with((divided, batch)).await?;
        Ok(true)
    }

    /// Adds the container of the feed to a patch, unless the part's document had it when its lease
    /// began.
    fn with_source(&self, patch: Patch<PartDocument>) -> Patch<PartDocument> {
        let source = Box::new(self.settings.feed_source());
        if self.guard.document().source.as_ref() == Some(&source) {
            return patch;
        }
        patch.set(PartDocument::SOURCE, Some(source))
    }

    /// Notes and stores a failed attempt. The write also renews the lease.
    async fn failed(
        &mut self,
        what: &str,
        error: &(dyn std::error::Error + Send + Sync + 'static),
    ) -> Result<Step, LeaseError> {
        self.note_failure(what, error);
        let delay = self.settings.retry_delay(self.failures);
        let at = self.settings.source.now();
        let failure = PartFailure {
            attempts: self.failures,
            at,
            reason: shortened(&format!("{what}: {error}")),
            next_attempt: at + delay,
        };
        let patch = Patch::new().set(PartDocument::FAILURE, Some(Box::new(failure)));
        let patch = self.with_source(patch);
        // Also when the write fails or is interrupted: it may have reached the service.
        self.is_failure_stored = true;
        match self.guard.run(patch).await {
            Ok(()) => {}
            Err(error) if is_final(&error) => return Err(error),
            // The lease lasts as long as before, and the next failure is stored again.
            Err(error) => tracing::debug!(%error, "the failure of a part was not stored"),
        }
        Ok(Step::Failed(delay))
    }

    fn note_failure(&mut self, what: &str, error: &(dyn std::error::Error + 'static)) {
        self.failures = self.failures.saturating_add(1);
        self.metrics.failed();
        let part = self.guard.document();
        tracing::warn!(
            processor = part.processor,
            part = part.borders,
            failures = self.failures,
            error,
            "{what}; it is retried"
        );
    }
}

/// Calls `note` at intervals while `work` runs.
async fn at_intervals<T>(note: impl Fn(), work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    loop {
        note();
        tokio::select! {
            done = &mut work => return done,
            () = sleep(LAG_INTERVAL) => {}
        }
    }
}

/// Renews the lease while `work` runs. A renewal that fails is repeated until the lease expires.
/// `work` rests while the lease is not certain to be held, because another process may do it then.
async fn renewing<T>(guard: &mut Guard, work: impl Future<Output = T>) -> Result<T, LeaseError> {
    tokio::pin!(work);
    let mut pause = guard.until_due();
    loop {
        tokio::select! {
            done = &mut work => return Ok(done),
            () = sleep(pause) => {}
        }
        let remaining = guard.remaining();
        // A renewal is not interrupted: the guard cannot write without its outcome.
        let (renewed, done) = {
            let renewal = guard.renew_if_due();
            tokio::pin!(renewal);
            tokio::select! {
                biased;
                renewed = &mut renewal => (renewed, None),
                () = sleep(remaining) => (renewal.await, None),
                done = &mut work => (renewal.await, Some(done)),
            }
        };
        match (renewed, done) {
            (Err(error), _) if is_final(&error) => return Err(error),
            (_, Some(done)) => return Ok(done),
            (Err(error), None) if guard.remaining().is_zero() => return Err(error),
            (Err(error), None) => {
                tracing::debug!(%error, "the lease of a part was not renewed");
                pause = (guard.remaining() / 4).max(SHORTEST_RENEWAL_PAUSE);
            }
            (Ok(_), None) => pause = guard.until_due(),
        }
    }
}

fn is_final(error: &LeaseError) -> bool {
    error.is_lost() || error.is_gone()
}
