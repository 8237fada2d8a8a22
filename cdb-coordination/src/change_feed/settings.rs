//! The settings of a processor, and what its readers share.

use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_client::feed::{ChangeFeed, ChangeRow, FeedCursor, FeedStart};
use cdb_model::Container;
use futures::future::BoxFuture;

use super::documents::FeedSource;
use crate::membership::MembershipConfig;
use crate::retry::{Jitter, RetryPolicy};
use crate::timing::{
    FEED_HEARTBEAT, FEED_POLL_INTERVAL, LONGEST_FEED_RETRY, MISSED_HEARTBEATS, PART_LEASE,
    TimingError,
};

/// The failure of a handler of changes. Any error converts with `?`.
pub type ChangeHandlerError = Box<dyn std::error::Error + Send + Sync>;

type Handler<R> =
    Box<dyn Fn(Vec<R>) -> BoxFuture<'static, Result<(), ChangeHandlerError>> + Send + Sync>;

/// The settings of a processor.
#[derive(Clone, Debug)]
pub struct ChangeProcessorConfig {
    /// Where the feed starts when the processor runs for the first time, the oldest document by
    /// default; a feed of all versions always starts at the next change. Later the stored position counts; [`reset_feed`](super::reset_feed) changes it.
    pub start: FeedStart,
    /// The most changes that a handler receives at once, 100 by default.
    pub page_size: u32,
    /// The pause before the next read of a part without new changes, 1 s by default.
    pub poll_interval: Duration,
    /// The duration of the lease of a part, 30 s by default. So long a part rests if its process is
    /// killed and no other process notices. At least three heartbeats: with a shorter lease the
    /// processor does not start.
    pub lease: Duration,
    /// The delays between attempts of a failing handler, 1 s to 1 min by default. Attempts are not
    /// limited: no change is skipped.
    pub retry: RetryPolicy,
    /// The name of this process among the members, unique by default.
    pub member: String,
    /// The interval of heartbeats, 2 s by default. A killed process is noticed after two to three.
    pub heartbeat: Duration,
}

impl Default for ChangeProcessorConfig {
    fn default() -> Self {
        let retry = RetryPolicy::default();
        Self {
            start: FeedStart::Beginning,
            page_size: 100,
            poll_interval: FEED_POLL_INTERVAL,
            lease: PART_LEASE,
            retry: retry.with_delays(retry.first_delay, LONGEST_FEED_RETRY),
            member: MembershipConfig::default().member,
            heartbeat: FEED_HEARTBEAT,
        }
    }
}

impl ChangeProcessorConfig {
    /// Checks the relations of the durations: the others notice a killed process before the leases
    /// of its parts end.
    pub(super) fn check(&self) -> Result<(), TimingError> {
        let (first, longest) = (self.retry.first_delay, self.retry.longest_delay);
        let detection = self.heartbeat.saturating_mul(MISSED_HEARTBEATS);
        TimingError::check(&[
            ("heartbeat * 3", detection, "lease", self.lease),
            ("retry.first_delay", first, "retry.longest_delay", longest),
        ])
    }
}

/// What the readers of a processor share. The rows `R` tell the mode of the feed.
pub(super) struct Settings<C, R> {
    pub(super) name: String,
    pub(super) source: ContainerClient<C>,
    pub(super) handler: Handler<R>,
    pub(super) config: ChangeProcessorConfig,
}

impl<C: Container, R: ChangeRow<C>> Settings<C, R> {
    pub(super) fn resume(&self, cursor: FeedCursor) -> ChangeFeed<C, R> {
        let feed = self.source.resume_feed(cursor);
        feed.page_size(self.config.page_size)
    }

    /// The container of the feed, as it is stored.
    pub(super) fn feed_source(&self) -> FeedSource {
        FeedSource {
            database: self.source.database().to_owned(),
            container: self.source.name().to_owned(),
            all_versions: R::ALL_VERSIONS,
        }
    }

    pub(super) fn retry_delay(&self, failures: u32) -> Duration {
        self.config.retry.delay(failures, &Jitter::random())
    }
}
