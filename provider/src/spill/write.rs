//! Writing chunks for a commit.

use cdb_coordination::Proof;
use cdb_model::{Batch, BatchError, Timestamp};
use duroxide::providers::WorkItem;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::remove::give_up;
use crate::documents::{Chunk, Chunked, Durable, Spill, SpillKey, Text, header, target_instance};
use crate::error::Result;
use crate::services::Services;
use crate::store::Store;

/// From here on a text leaves its document when the commit is too large for one batch. Smaller ones are so few, or go
/// into intents together, that the rest of a commit always fits.
const LARGE_BYTES: usize = 64 * 1024;

/// How many chunks are written at the same time.
const AT_ONCE: usize = 4;

/// The chunks of a commit that is still to come.
#[derive(Debug)]
pub(crate) struct Spilling {
    spill: Spill,
    /// Not written yet.
    chunks: Vec<Chunk>,
    /// Whether all that was to be written is known to be there.
    written: bool,
}

impl Spilling {
    /// For a commit of this instance that has no chunks yet.
    pub(crate) fn new(instance_id: &str, now: Timestamp) -> Self {
        Self {
            spill: Spill {
                instance_id: instance_id.to_owned(),
                name: uuid::Uuid::new_v4().to_string(),
                texts: Vec::new(),
                created_at: now,
            },
            chunks: Vec::new(),
            written: false,
        }
    }

    /// Cuts a text of this instance's into chunks.
    pub(crate) fn cut(&mut self, instance_id: &str, text: &str) -> Chunked {
        let blob = format!("{}-{}", self.spill.name, self.spill.texts.len());
        let (chunked, chunks) = Chunked::cut(instance_id, &blob, text);
        self.spill.texts.push(chunked.clone());
        self.chunks.extend(chunks);
        chunked
    }

    /// Moves a text out of its document if it is large.
    pub(crate) fn relieve(&mut self, text: &mut Text) {
        let instance_id = self.spill.instance_id.clone();
        if let Text::Inline(inline) = text
            && inline.len() > LARGE_BYTES
        {
            *text = Text::Chunked(self.cut(&instance_id, inline));
        }
    }

    /// The same for a message, which goes into the partition of its target, and of which is kept what delivering it takes.
    pub(crate) fn relieve_message(&mut self, text: &mut Text) -> Result<(), serde_json::Error> {
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

    /// Writes the chunks that are not written yet, and before them what tells of them.
    ///
    /// # Errors
    /// When one cannot be written. What was written is removed by the sweep.
    pub(crate) async fn write(&mut self, store: &Store) -> Result<()> {
        if self.chunks.is_empty() {
            return Ok(());
        }
        let container = &store.container;
        container.ensure(&self.spill).await?;
        let writes = std::mem::take(&mut self.chunks).into_iter();
        let writes = writes.map(|chunk| async move { container.ensure(&chunk).await.map(drop) });
        stream::iter(writes)
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
        self.written = true;
        Ok(())
    }

    /// Adds to the commit that its chunks are now referred to. The commit fails if they have been given up as lost.
    pub(crate) fn settle(&self, batch: &mut Batch<Durable>) -> Result<(), BatchError> {
        if !self.spill.texts.is_empty() {
            batch.delete(&SpillKey::new(&*self.spill.instance_id, &*self.spill.name))?;
        }
        Ok(())
    }

    /// What proves that the commit took place: the document that tells of its chunks is gone.
    pub(crate) fn proof(&self) -> Proof<SpillKey> {
        Proof::Deleted(SpillKey::new(&*self.spill.instance_id, &*self.spill.name))
    }

    /// The commit is not tried any more: its chunks go, unless it has taken place after all. What may still be on its
    /// way to the service is left to the sweep.
    pub(crate) fn give_up(&self, services: &Services) {
        if self.written {
            give_up(services, self.spill.clone());
        }
    }
}
