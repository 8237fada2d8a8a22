//! Reads one part of a feed under its lease.

use std::sync::Arc;
use std::time::Duration;

use cdb_client::ChangeFeed;
use cdb_model::{Container, Patch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::documents::{ChangeFeedState, PartDocument};
use super::settings::Settings;
use super::telemetry::PartMetrics;
use crate::lease::{LeaseError, LeaseGuard};

/// The most parts that replace one: so many documents fit into a batch with the divided one.
const MOST_PARTS: usize = 90;

type Guard = LeaseGuard<ChangeFeedState, PartDocument>;

/// The reader of a part.
pub(super) struct Reader<C> {
    settings: Arc<Settings<C>>,
    guard: Guard,
    feed: ChangeFeed<C>,
    metrics: PartMetrics,
    failures: u32,
}

impl<C: Container> Reader<C> {
    pub(super) fn new(settings: Arc<Settings<C>>, guard: Guard) -> Self {
        let part = guard.document();
        let feed = settings.source.resume_change_feed(part.cursor.clone());
        Self {
            feed: feed.page_size(settings.config.page_size),
            metrics: PartMetrics::new(&part.processor, &part.borders),
            settings,
            guard,
            failures: 0,
        }
    }

    /// Reads and handles changes until `stop` is cancelled or other parts replace this one. A handler
    /// that runs then finishes first.
    ///
    /// # Errors
    /// When the lease is lost or cannot be written.
    pub(super) async fn run(mut self, stop: CancellationToken) -> Result<(), LeaseError> {
        while !stop.is_cancelled() {
            let handled = self.handle_next().await?;
            if handled && self.divide().await? {
                return Ok(());
            }
            let pause = match self.failures {
                0 if handled => continue,
                0 => self.settings.config.poll_interval,
                failures => self.settings.retry_delay(failures),
            };
            tokio::select! {
                () = stop.cancelled() => {}
                slept = renewing(&mut self.guard, sleep(pause)) => slept?,
            }
        }
        self.guard.release().await
    }

    /// Handles the next changes and stores the position after them. Returns whether the position has
    /// moved.
    async fn handle_next(&mut self) -> Result<bool, LeaseError> {
        let before = self.feed.cursor().clone();
        let rows = match renewing(&mut self.guard, self.feed.next_rows()).await? {
            Ok(rows) => rows,
            Err(error) => {
                self.failed("cannot read the change feed", &error);
                return Ok(false);
            }
        };
        self.metrics.read(&rows, self.settings.source.now());
        let count = rows.len();
        if count > 0 {
            let handled = (self.settings.handler)(rows);
            if let Err(error) = renewing(&mut self.guard, handled).await? {
                self.failed("the handler of changes failed", &*error);
                self.feed = self.settings.resume(before);
                return Ok(false);
            }
        }
        self.failures = 0;
        let cursor = self.feed.cursor();
        // An empty page moves the position too. It is stored when it is the first one, which decides
        // where `FeedStart::Now` is, or when it divides the part.
        let is_first = before.parts(1).is_empty();
        let is_stored = count > 0 || is_first || cursor.parts(2).len() > 1;
        if is_stored && cursor.parts(2).len() < 2 {
            let moved = Patch::new().set(PartDocument::CURSOR, cursor.clone());
            self.guard.patch(moved).await?;
            self.metrics.handled(count);
        }
        Ok(is_stored)
    }

    /// Replaces the part by others if it covers several physical partitions.
    async fn divide(&mut self) -> Result<bool, LeaseError> {
        let parts = self.feed.cursor().parts(MOST_PARTS);
        if parts.len() < 2 {
            return Ok(false);
        }
        let part = self.guard.document();
        let parts = parts
            .into_iter()
            .map(|cursor| PartDocument::new(&part.processor, part.generation, cursor));
        let parts: Vec<PartDocument> = parts.collect();
        let divided = Patch::new().set(PartDocument::DIVIDED, true);
        let mut batch = self.guard.begin_release(divided)?;
        for part in &parts {
            batch.batch.create(part)?;
        }
        self.guard.commit(batch).await?;
        Ok(true)
    }

    fn failed(&mut self, what: &str, error: &(dyn std::error::Error + 'static)) {
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

/// Renews the lease while `work` runs. A renewal that fails is repeated until the lease expires.
async fn renewing<T>(guard: &mut Guard, work: impl Future<Output = T>) -> Result<T, LeaseError> {
    tokio::pin!(work);
    loop {
        let pause = guard.remaining() / 4;
        tokio::select! {
            done = &mut work => return Ok(done),
            () = sleep(pause.max(Duration::from_millis(10))) => {
                match guard.renew_if_due().await {
                    Err(error) if is_final(&error) || guard.remaining().is_zero() => return Err(error),
                    Err(error) => tracing::debug!(%error, "the lease of a part was not renewed"),
                    Ok(_) => {}
                }
            }
        }
    }
}

fn is_final(error: &LeaseError) -> bool {
    error.is_lost() || error.is_gone()
}
