//! The change of a key-value store in a commit: one document per key, or all keys in one document.

use cdb_client::write::BatchOutcome;
use cdb_model::operation::{BatchError, OperationIndex};
use cdb_model::{Batch, Document, DocumentKey, ETag, Stored};
use serde::ser::Error as _;

use super::changes::KvChanges;
use super::state::{KvState, replace};
use crate::stored::documents::{Durable, KeyValuePack, PackedKeyValues, Text};

impl KvChanges {
    /// Packs the whole store after the changes into one document.
    ///
    /// # Errors
    /// Fails when the store cannot be written as JSON, or a key has no valid id.
    pub(crate) fn pack(
        self,
        instance_id: &str,
        state: &KvState,
    ) -> Result<KvUpdate, serde_json::Error> {
        let applied = self.applied(state.clone(), || Some(ETag::new(String::new())));
        let no_id = || serde_json::Error::custom("a key of the key-value store has no id");
        let state = applied.ok_or_else(no_id)?;
        let contents = PackedKeyValues {
            store: documents(&state.store),
            delta: documents(&state.delta),
        };
        let pack = KeyValuePack {
            instance_id: instance_id.to_owned(),
            value: Text::Inline(serde_json::to_string(&contents)?),
        };
        Ok(KvUpdate::Pack(pack, state))
    }

    /// Returns the state after the changes; `None` when an ETag is unknown, or a key has no valid
    /// id.
    fn applied(
        self,
        mut state: KvState,
        mut etag: impl FnMut() -> Option<ETag>,
    ) -> Option<KvState> {
        for gone in self.gone_values {
            state.store.retain(|stored| stored.id != gone.id);
        }
        for gone in self.gone_deltas {
            state.delta.retain(|stored| stored.id != gone.id);
        }
        for value in self.values {
            replace(&mut state.store, value.key().to_id().ok()?, value, etag()?);
        }
        for delta in self.deltas {
            replace(&mut state.delta, delta.key().to_id().ok()?, delta, etag()?);
        }
        Some(state)
    }
}

fn documents<D: Clone>(stored: &[Stored<D>]) -> Vec<D> {
    stored
        .iter()
        .map(|stored| stored.document.clone())
        .collect()
}

/// The change of a key-value store: one document per key, or all keys in one document.
#[derive(Debug)]
pub(crate) enum KvUpdate {
    Documents(KvChanges),
    /// The document, and the state that it holds.
    Pack(KeyValuePack, KvState),
}

impl KvUpdate {
    pub(crate) fn is_pack(&self) -> bool {
        matches!(self, Self::Pack(..))
    }

    /// Returns the text that may be too large for the commit; `None` for single documents.
    pub(crate) fn text_mut(&mut self) -> Option<&mut Text> {
        match self {
            Self::Documents(_) => None,
            Self::Pack(pack, _) => Some(&mut pack.value),
        }
    }

    /// Adds the update to the commit. Returns the operations of new values, then those of new
    /// deltas.
    pub(crate) fn add_to(
        &self,
        batch: &mut Batch<Durable>,
    ) -> Result<Vec<OperationIndex>, BatchError> {
        let changes = match self {
            Self::Pack(pack, _) => {
                batch.add(pack.upsert())?;
                return Ok(Vec::new());
            }
            Self::Documents(changes) => changes,
        };
        let mut written = Vec::new();
        for value in &changes.values {
            written.push(batch.add(value.upsert())?);
        }
        for delta in &changes.deltas {
            written.push(batch.add(delta.upsert())?);
        }
        for value in &changes.gone_values {
            batch.add(value.delete())?;
        }
        for delta in &changes.gone_deltas {
            batch.add(delta.delete())?;
        }
        Ok(written)
    }

    /// Returns the state after the commit; `None` when the answer lacks ETags, or a key has no
    /// valid id.
    pub(crate) fn applied(
        self,
        state: KvState,
        operations: &[OperationIndex],
        outcome: Option<&BatchOutcome<Durable>>,
    ) -> Option<KvState> {
        match self {
            Self::Pack(pack, state) => Some(KvState {
                pack: Some(pack),
                ..state
            }),
            Self::Documents(changes) => {
                let mut operations = operations.iter();
                changes.applied(state, || Some(outcome?.etag(*operations.next()?)?.clone()))
            }
        }
    }
}
