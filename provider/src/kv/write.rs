//! Changes on their way into a commit: one document per key, or all of them in one.

use cdb_client::BatchOutcome;
use cdb_model::{Batch, BatchError, Document, DocumentKey, ItemId, OperationIndex};

use super::state::put;
use super::{KvChanges, KvState};
use crate::documents::{Durable, KeyValue, KeyValueDelta, KeyValuePack, PackedKeyValues, Text};

impl KvChanges {
    /// The whole store after the changes, as one document.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub(crate) fn pack(
        self,
        instance_id: &str,
        state: &KvState,
    ) -> Result<(KeyValuePack, PackedKeyValues), serde_json::Error> {
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
        Ok((pack, contents))
    }

    /// Adds them to the commit.
    pub(crate) fn add_to(self, batch: &mut Batch<Durable>) -> Result<KvWritten, BatchError> {
        let values = self.values.into_iter();
        let values = values
            .map(|value| batch.upsert(&value).map(|operation| (value, operation)))
            .collect::<Result<_, _>>()?;
        let deltas = self.deltas.into_iter();
        let deltas = deltas
            .map(|delta| batch.upsert(&delta).map(|operation| (delta, operation)))
            .collect::<Result<_, _>>()?;
        let mut gone = Vec::new();
        for value in &self.gone_values {
            batch.delete_stored(value)?;
            gone.push(value.id.clone());
        }
        for delta in &self.gone_deltas {
            batch.delete_stored(delta)?;
            gone.push(delta.id.clone());
        }
        Ok(KvWritten {
            values,
            deltas,
            gone,
        })
    }
}

/// Changes as they are part of a batch.
#[derive(Debug)]
pub(crate) struct KvWritten {
    values: Vec<(KeyValue, OperationIndex)>,
    deltas: Vec<(KeyValueDelta, OperationIndex)>,
    gone: Vec<ItemId>,
}

impl KvWritten {
    /// The state after the batch. `None` when its answer does not say which versions it left.
    pub(crate) fn applied(
        self,
        mut state: KvState,
        outcome: &BatchOutcome<Durable>,
    ) -> Option<KvState> {
        state.store.retain(|stored| !self.gone.contains(&stored.id));
        state.delta.retain(|stored| !self.gone.contains(&stored.id));
        for (value, operation) in self.values {
            let etag = outcome.etag(operation)?.clone();
            put(&mut state.store, value.key().to_id().ok()?, value, etag);
        }
        for (delta, operation) in self.deltas {
            let etag = outcome.etag(operation)?.clone();
            put(&mut state.delta, delta.key().to_id().ok()?, delta, etag);
        }
        Some(state)
    }
}
