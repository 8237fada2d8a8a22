//! Writes chunks for a commit.

use std::collections::HashSet;

use cdb_client::ContainerClient;
use cdb_model::operation::BatchError;
use cdb_model::{Batch, Document, Patch, Timestamp};
use duroxide::providers::WorkItem;
use futures::stream::{self, StreamExt};

use super::remove::release;
use crate::error::Result;
use crate::stored::Store;
use crate::stored::documents::{Chunk, Chunked, Durable, Spill, Text, header, target_instance};
use crate::timing::SPILL_REFRESHES;

/// The size from which on a text moves into chunks when the commit is too large for one batch.
/// Smaller texts are few, or leave in intents, so that the rest of a commit always fits.
const LARGE_BYTES: usize = 64 * 1024;

/// The number of concurrent writes.
const CONCURRENCY: usize = 4;

/// The chunks of a planned commit.
#[derive(Debug)]
pub(crate) struct Spilling {
    spill: Spill,
    /// Whether the spill is written.
    named: bool,
    /// The chunks that are not known to be written.
    chunks: Vec<Chunk>,
}

impl Spilling {
    /// Creates the spill of a commit that has no chunks yet.
    pub(crate) fn new(instance_id: &str, now: Timestamp) -> Self {
        Self {
            spill: Spill::new(instance_id, Vec::new(), now),
            named: false,
            chunks: Vec::new(),
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

    /// Returns the number of chunks that are not known to be written.
    pub(crate) fn chunks_left(&self) -> usize {
        self.chunks.len()
    }

    /// Writes the spill, then the chunks that are not written yet. After an error, another call
    /// continues.
    ///
    /// # Errors
    /// Fails when a document cannot be written, or the spill was swept. The sweep deletes the
    /// written ones.
    pub(crate) async fn write(&mut self, store: &Store) -> Result<()> {
        if self.chunks.is_empty() {
            return Ok(());
        }
        let container = &store.container;
        if !self.named {
            container.create_if_missing(&self.spill).await?;
            self.named = true;
        }
        let writes = self.chunks.iter().map(|chunk| write(container, chunk));
        let writes: Vec<_> = writes.collect();
        let mut writes = stream::iter(writes).buffer_unordered(CONCURRENCY);
        let (mut written, mut ended) = (HashSet::new(), Ok(()));
        while ended.is_ok()
            && let Some(chunk) = writes.next().await
        {
            match chunk {
                Ok(part) => {
                    written.insert(part);
                    ended = refresh(&mut self.spill, store).await;
                }
                Err(error) => ended = Err(error),
            }
        }
        drop(writes);
        self.chunks.retain(|chunk| !written.contains(&chunk.part));
        ended
    }

    /// Replaces the spill by its trace in the commit. The commit fails if its chunks were released as
    /// lost.
    pub(crate) fn confirm(&self, batch: &mut Batch<Durable>) -> Result<(), BatchError> {
        if !self.spill.texts.is_empty() {
            batch.add(self.spill.trace().replace())?;
        }
        Ok(())
    }

    /// Deletes the chunks of an abandoned commit in the background, unless the commit took place. A
    /// send that may still arrive is left to the sweep.
    pub(crate) fn release(&self, store: &Store) {
        if self.named && self.chunks.is_empty() {
            release(store, self.spill.clone());
        }
    }
}

/// Writes a chunk. Returns its name.
async fn write(container: &ContainerClient<Durable>, chunk: &Chunk) -> Result<String> {
    container.create_if_missing(chunk).await?;
    Ok(chunk.part.clone())
}

/// Moves the time of a spill whose chunks are still written, so that no process takes it for the
/// spill of a commit that never comes.
async fn refresh(spill: &mut Spill, store: &Store) -> Result<()> {
    let now = store.now();
    if now.since(spill.created_at) >= store.orphan_age / SPILL_REFRESHES {
        let patch = Patch::<Spill>::new().set(Spill::CREATED_AT, now);
        store.container.run(patch.at(&spill.key())).await?;
        spill.created_at = now;
    }
    Ok(())
}
