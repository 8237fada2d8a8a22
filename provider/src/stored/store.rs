//! The container with what every access to it shares: limits, times, and reports of corrupt
//! documents.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_model::Timestamp;

use super::corrupt_documents::CorruptDocuments;
use super::documents::Durable;
use super::instance_labels::InstanceLabels;
use super::tasks::Tasks;
use crate::stored::payload::{PayloadCodec, Payloads};
use crate::stored::spill::Limits;

/// The settings of a store.
#[derive(Debug)]
pub(crate) struct StoreSettings {
    pub(crate) limits: Limits,
    pub(crate) payload_codec: Option<Arc<dyn PayloadCodec>>,
    pub(crate) labels: InstanceLabels,
    pub(crate) holds: bool,
    pub(crate) runtime: String,
    pub(crate) unclaimed_age: Duration,
    pub(crate) orphan_age: Duration,
}

/// The container and the settings of its documents. Clones share their state.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) container: ContainerClient<Durable>,
    pub(crate) limits: Limits,
    pub(crate) corrupt_documents: Arc<CorruptDocuments>,
    pub(crate) payloads: Payloads,
    pub(crate) labels: InstanceLabels,
    /// Whether instances are held whose turns this process's code cannot execute.
    pub(crate) holds: bool,
    /// The name of this process, for people.
    pub(crate) runtime: Arc<str>,
    /// How long messages wait for an instance that does not exist.
    pub(crate) unclaimed_age: Duration,
    /// The age at which chunks without a commit are deleted.
    pub(crate) orphan_age: Duration,
    pub(crate) tasks: Tasks,
    last_enqueued: Arc<AtomicU64>,
    /// The incarnation of this member; `None` without membership.
    incarnation: Option<Arc<str>>,
}

impl Store {
    pub(crate) fn new(
        container: ContainerClient<Durable>,
        settings: StoreSettings,
        incarnation: Option<Arc<str>>,
    ) -> Self {
        Self {
            container,
            limits: settings.limits,
            corrupt_documents: Arc::default(),
            payloads: Payloads::new(settings.payload_codec),
            labels: settings.labels,
            holds: settings.holds,
            runtime: settings.runtime.into(),
            unclaimed_age: settings.unclaimed_age,
            orphan_age: settings.orphan_age,
            tasks: Tasks::default(),
            last_enqueued: Arc::default(),
            incarnation,
        }
    }

    /// Returns a new lock token. It begins with the incarnation of this member, so that other
    /// members can find the locks of a failed one.
    pub(crate) fn new_lock_token(&self) -> String {
        let token = uuid::Uuid::new_v4();
        match &self.incarnation {
            Some(incarnation) => format!("{incarnation}/{token}"),
            None => token.to_string(),
        }
    }

    /// Returns this process's estimate of the service's time.
    pub(crate) fn now(&self) -> Timestamp {
        self.container.now()
    }

    /// Returns the time of this process at which the clock of the service shows `at`. Returns the
    /// present for past times.
    pub(crate) fn local_time(&self, at: Timestamp) -> std::time::Instant {
        tokio::time::Instant::now().into_std() + at.since(self.now())
    }

    /// Returns the time of the write of a new message: the service's time, and later than any
    /// returned before. Messages that this process writes within one millisecond keep their order.
    /// With more messages than milliseconds, the time runs ahead of the clock.
    pub(crate) fn enqueue_time(&self) -> Timestamp {
        let now = self.now().as_millis();
        let next = |last: u64| Some(now.max(last + 1));
        // The closure always returns `Some`, so both variants hold the previous value.
        let last = self
            .last_enqueued
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .unwrap_or_else(|last| last);
        Timestamp::from_millis(now.max(last + 1))
    }
}

/// Returns whether a member of this incarnation created the lock token.
pub(crate) fn is_token_of(token: &str, incarnation: &str) -> bool {
    token
        .strip_prefix(incarnation)
        .is_some_and(|rest| rest.starts_with('/'))
}
