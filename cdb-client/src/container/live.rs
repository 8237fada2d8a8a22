//! A container as the service describes it.

use cdb_model::{ContainerDefinition, IndexDefinition};
use serde::Deserialize;

use crate::error::Result;
use crate::header;
use crate::retry::Accepted;

/// A container at the service.
#[derive(Debug)]
pub(super) struct LiveContainer {
    /// The members that a model knows.
    pub(super) definition: ContainerDefinition,
    /// The resource id.
    pub(super) rid: String,
    /// The progress of its index in percent; `None` when the service does not report it.
    pub(super) index_progress: Option<u8>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredContainer {
    #[serde(rename = "_rid", default)]
    rid: String,
    /// The newer name of the definition's `materializedViewDefinition`; the service may return both.
    #[serde(default)]
    global_secondary_index_definition: Option<IndexDefinition>,
    #[serde(flatten)]
    definition: ContainerDefinition,
}

impl LiveContainer {
    pub(super) fn of(accepted: &Accepted) -> Result<Self> {
        let stored: StoredContainer = accepted.json()?;
        let mut definition = stored.definition;
        definition.index_of = stored
            .global_secondary_index_definition
            .or(definition.index_of);
        Ok(Self {
            definition,
            rid: stored.rid,
            index_progress: Self::index_progress_of(accepted),
        })
    }

    pub(super) fn index_progress_of(accepted: &Accepted) -> Option<u8> {
        accepted.header(&header::INDEX_PROGRESS)?.parse().ok()
    }
}
