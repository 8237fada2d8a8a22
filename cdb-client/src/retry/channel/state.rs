//! The state that all requests to one container share.

use std::sync::Arc;

use crate::partitions::{PartitionHealth, RangeCache, SessionTokens};
use crate::protocol::Resource;
use crate::retry::Pipeline;
use crate::throughput::{Governor, Work};

/// The way to one container. Clones share what the process knows of it.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    pub pipeline: Arc<Pipeline>,
    pub resource: Resource,
    pub database: String,
    pub container: String,
    pub sessions: Arc<SessionTokens>,
    pub(super) ranges: Arc<RangeCache>,
    pub health: Arc<PartitionHealth>,
    pub governor: Arc<Governor>,
    /// The class of all requests of this clone.
    pub(super) work: Work,
}

impl Channel {
    pub(crate) fn new(pipeline: Arc<Pipeline>, database: &str, container: &str) -> Self {
        Self {
            governor: Arc::new(Governor::new(pipeline.parts.background.share)),
            pipeline,
            resource: Resource::container(database, container),
            database: database.to_owned(),
            container: container.to_owned(),
            sessions: Arc::default(),
            ranges: Arc::default(),
            health: Arc::default(),
            work: Work::Foreground,
        }
    }

    /// Returns a clone whose requests are background work.
    pub(crate) fn in_background(&self) -> Self {
        Self {
            work: Work::Background,
            ..self.clone()
        }
    }

    /// Forgets the ranges and session tokens of a deleted or re-created container.
    pub(crate) fn forget(&self) {
        self.sessions.clear();
        self.ranges.clear();
        self.health.clear();
    }
}
