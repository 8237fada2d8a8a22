//! A container as the service describes it.

use cdb_model::container::ContainerDefinition;

use crate::error::Result;
use crate::protocol::{Accepted, header};

/// A container at the service.
#[derive(Debug)]
pub(super) struct LiveContainer {
    /// The members that a model knows.
    pub(super) definition: ContainerDefinition,
    /// The progress of its index in percent; `None` when the service does not report it.
    pub(super) index_progress: Option<u8>,
}

impl LiveContainer {
    pub(super) fn of(accepted: &Accepted) -> Result<Self> {
        Ok(Self {
            definition: accepted.metadata()?,
            index_progress: Self::index_progress_of(accepted),
        })
    }

    pub(super) fn index_progress_of(accepted: &Accepted) -> Option<u8> {
        accepted.header(&header::INDEX_PROGRESS)?.parse().ok()
    }
}
