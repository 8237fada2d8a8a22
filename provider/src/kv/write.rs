//! The change of a key-value store in a commit: one document per key, or all keys in one document.

use cdb_client::BatchOutcome;
use cdb_model::{Batch, BatchError, Document, DocumentKey, ItemId, OperationIndex};

use super::state::replace;
use super::{KvChanges, KvState};
use crate::documents::{Durable, KeyValuePack, PackedKeyValues, Text};

impl KvChanges {
    /// Packs the whole store after the changes into one document.
    ///
    /// # Errors
    /// Fails when the store cannot be written as JSON.
    pub(crate) fn pack(
        self,
        instance_id: &str,
        state: &KvState,
    ) -> Result<KvUpdate, serde_json::Error> {
        let mut contents = PackedKeyValues::default();
        let kept = state.store.iter().filter(|kept| {
            self.gone_values.iter().all(|gone| gone.id != kept.id)
                && (self.values.iter()).all(|value| value.key != kept.document.key)
        });
        contents
            .store
            .extend(kept.map(|stored| stored.document.clone()));
        contents.store.extend(self.values);
        let kept = state.delta.iter().filter(|kept| {
            self.gone_deltas.iter().all(|gone| gone.id != kept.id)
                && (self.deltas.iter()).all(|delta| delta.key != kept.document.key)
        });
        contents
            .delta
            .extend(kept.map(|stored| stored.document.clone()));
        contents.delta.extend(self.deltas);
        let pack = KeyValuePack {
            instance_id: instance_id.to_owned(),
            value: Text::Inline(serde_json::to_string(&contents)?),
        };
        Ok(KvUpdate::Pack(pack, contents))
    }
}

/// The change of a key-value store: one document per key, or all keys in one document.
#[derive(Debug)]
pub(crate) enum KvUpdate {
    Documents(KvChanges),
    Pack(KeyValuePack, PackedKeyValues),
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
                batch.upsert(pack)?;
                return Ok(Vec::new());
            }
            Self::Documents(changes) => changes,
        };
        let mut written = Vec::new();
        for value in &changes.values {
            written.push(batch.upsert(value)?);
        }
        for delta in &changes.deltas {
            written.push(batch.upsert(delta)?);
        }
        for value in &changes.gone_values {
            batch.delete_stored(value)?;
        }
        for delta in &changes.gone_deltas {
            batch.delete_stored(delta)?;
        }
        Ok(written)
    }

    /// Returns the state after the commit; `None` when the answer lacks ETags, or a key has no
    /// valid id.
    pub(crate) fn applied(
        self,
        mut state: KvState,
        operations: &[OperationIndex],
        outcome: Option<&BatchOutcome<Durable>>,
    ) -> Option<KvState> {
        let changes = match self {
            Self::Pack(pack, contents) => return KvState::unpacked(pack, contents),
            Self::Documents(changes) => changes,
        };
        let is_gone = |id: &ItemId| {
            changes.gone_values.iter().any(|gone| gone.id == *id)
                || changes.gone_deltas.iter().any(|gone| gone.id == *id)
        };
        state.store.retain(|stored| !is_gone(&stored.id));
        state.delta.retain(|stored| !is_gone(&stored.id));
        let mut operations = operations.iter();
        let mut etag = || Some(outcome?.etag(*operations.next()?)?.clone());
        for value in changes.values {
            replace(&mut state.store, value.key().to_id().ok()?, value, etag()?);
        }
        for delta in changes.deltas {
            replace(&mut state.delta, delta.key().to_id().ok()?, delta, etag()?);
        }
        Some(state)
    }
}
