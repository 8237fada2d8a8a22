//! Writes chunks for a commit.

use cdb_coordination::Proof;
use cdb_model::{Batch, BatchError, Document, Timestamp};
use duroxide::providers::WorkItem;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::remove::release;
use crate::documents::{Chunk, Chunked, Durable, Spill, SpillKey, Text, header, target_instance};
use crate::error::Result;
use crate::services::Services;
use crate::store::Store;

/// The size from which on a text moves into chunks when the commit is too large for one batch.
/// Smaller texts are few, or leave in intents, so that the rest of a commit always fits.
const LARGE_BYTES: usize = 64 * 1024;

/// The number of concurrent writes.
const CONCURRENCY: usize = 4;

/// The chunks of a planned commit.
#[derive(Debug)]
pub(crate) struct Spilling {
    spill: Spill,
    /// The chunks that are not written yet.
    chunks: Vec<Chunk>,
    /// Whether all chunks are known to be written.
    written: bool,
}

impl Spilling {
    /// Creates the spill of a commit that has no chunks yet.
    pub(crate) fn new(instance_id: &str, now: Timestamp) -> Self {
        Self {
            spill: Spill::new(instance_id, Vec::new(), now),
            chunks: Vec::new(),
            written: false,
        }
    }

    /// Splits a text of this instance into chunks.
    pub(crate) fn cut(&mut self, instance_id: &str, text: &str) -> Chunked {
        let blob = format!("{}-{}", self.spill.name, self.spill.texts.len());
        let (chunked, chunks) = Chunked::cut(instance_id, &blob, text);
        self.spill.texts.push(chunked.clone());
        self.chunks.extend(chunks);
        chunked
    }

    /// Moves a large text into chunks.
    pub(crate) fn spill(&mut self, text: &mut Text) {
        let instance_id = self.spill.instance_id.clone();
        if let Text::Inline(inline) = text
            && inline.len() > LARGE_BYTES
        {
            *text = Text::Chunked(self.cut(&instance_id, inline));
        }
    }

    /// Moves a large message into chunks in the partition of its target, and keeps its header.
    pub(crate) fn spill_message(&mut self, text: &mut Text) -> Result<(), serde_json::Error> {
        if let Text::Inline(inline) = text
            && inline.len() > LARGE_BYTES
        {
            let item: WorkItem = serde_json::from_str(inline)?;
            let chunked = self.cut(target_instance(&item), inline);
            let header = Some(header(item)?);
            *text = Text::Chunked(Chunked {
                outline: header,
                ..chunked
            });
        }
        Ok(())
    }

    /// Writes the spill, then the chunks that are not written yet.
    ///
    /// # Errors
    /// Fails when a document cannot be written. The sweep deletes the written ones.
    pub(crate) async fn write(&mut self, store: &Store) -> Result<()> {
        if self.chunks.is_empty() {
            return Ok(());
        }
        let container = &store.container;
        container.ensure(&self.spill).await?;
        let writes = std::mem::take(&mut self.chunks).into_iter();
        let writes = writes.map(|chunk| async move { container.ensure(&chunk).await.map(drop) });
        stream::iter(writes)
            .buffer_unordered(CONCURRENCY)
            .try_collect::<()>()
            .await?;
        self.written = true;
        Ok(())
    }

    /// Adds the deletion of the spill to the commit. The commit fails if its chunks were released
    /// as lost.
    pub(crate) fn confirm(&self, batch: &mut Batch<Durable>) -> Result<(), BatchError> {
        if !self.spill.texts.is_empty() {
            batch.delete(&self.spill.key())?;
        }
        Ok(())
    }

    /// Returns the proof of the commit: its spill is deleted.
    pub(crate) fn proof(&self) -> Proof<SpillKey> {
        Proof::Deleted(self.spill.key())
    }

    /// Deletes the chunks of an abandoned commit in the background, unless the commit took place. A
    /// send that may still arrive is left to the sweep.
    pub(crate) fn release(&self, services: &Services) {
        if self.written {
            release(services, self.spill.clone());
        }
    }
}
