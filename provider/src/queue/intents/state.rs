//! What this process knows of the delivery of intents.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cdb_client::RangeId;
use cdb_coordination::Windows;

use super::backoff::Backoff;
use super::intent::Outbox;
use crate::config::CosmosDBProviderConfig;

/// The delivery of messages that turns commit for other instances.
#[derive(Default)]
pub(crate) struct Delivery {
    pub(crate) outbox: Outbox,
    pub(crate) search: IntentSearch,
    pub(crate) backoff: Backoff,
    /// The age at which the reconciler delivers an undelivered intent.
    pub(crate) reconciler_age: Duration,
    pub(crate) reconciler_interval: Duration,
}

impl Delivery {
    pub(crate) fn new(config: &CosmosDBProviderConfig) -> Self {
        Self {
            reconciler_age: config.reconciler_age_threshold,
            reconciler_interval: config.reconciler_interval,
            ..Self::default()
        }
    }
}

/// The state between two searches.
#[derive(Debug, Default)]
pub(crate) struct IntentSearch {
    pub(crate) windows: Windows<RangeId>,
    searches: AtomicUsize,
}

impl IntentSearch {
    /// Lets each search begin with another partition.
    pub(crate) fn rotate(&self, ranges: &mut [RangeId]) {
        let searches = self.searches.fetch_add(1, Ordering::Relaxed);
        let first = searches % ranges.len().max(1);
        ranges.rotate_left(first);
    }
}
