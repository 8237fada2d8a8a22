//! The chunks of deleted documents.

use cdb_client::ContainerClient;
use cdb_model::{BulkBatch, Query};

use crate::documents::{Chunk, ChunkKey, Chunked, Durable, Text};
use crate::error::Result;

/// The most chunks that one bulk deletes.
const BULK_CHUNKS: usize = 100;

/// Returns the texts of a document that may be stored in chunks.
fn texts(document: &Durable) -> Vec<&Text> {
    match document {
        Durable::Instance(instance) => instance.output.iter().collect(),
        Durable::History(segment) => vec![&segment.event_data],
        Durable::Execution(execution) => execution.output.iter().collect(),
        Durable::OrchestratorItem(item) => vec![&item.work_item],
        Durable::WorkerItem(item) => vec![&item.work_item],
        Durable::OutboxIntent(intent) => {
            let items = intent.items.iter();
            items.map(|item| &item.work_item).collect()
        }
        Durable::KeyValuePack(pack) => vec![&pack.value],
        Durable::Inbox(_)
        | Durable::Session(_)
        | Durable::KeyValue(_)
        | Durable::KeyValueDelta(_)
        | Durable::Chunk(_)
        | Durable::Spill(_)
        | Durable::Member(_)
        | Durable::Schema(_) => Vec::new(),
    }
}

/// Returns whether a document refers to chunks.
pub(super) fn refers(document: &Durable) -> bool {
    match document {
        Durable::Spill(_) => true,
        Durable::OutboxIntent(intent) if intent.more.is_some() => true,
        _ => texts(document).iter().any(|text| text.chunked().is_some()),
    }
}

/// Deletes the chunks of these documents.
pub(super) async fn delete_of(
    container: &ContainerClient<Durable>,
    documents: impl Iterator<Item = &Durable>,
) -> Result<()> {
    let keys: Vec<ChunkKey> = documents
        .flat_map(texts)
        .filter_map(Text::chunked)
        .flat_map(keys_of)
        .collect();
    delete(container, &keys).await
}

/// Deletes the chunks of one text.
pub(super) async fn delete_text(
    container: &ContainerClient<Durable>,
    text: &Chunked,
) -> Result<()> {
    delete(container, &keys_of(text)).await
}

/// Deletes all chunks in the partition of an instance.
pub(super) async fn delete_all(
    container: &ContainerClient<Durable>,
    instance_id: &str,
) -> Result<()> {
    let query = Query::<Chunk>::in_partition(instance_id).values(Chunk::PART);
    let parts = container.query(query).row_by_row().all().await?;
    // A chunk without a name was not written by this crate.
    let keys: Vec<ChunkKey> = parts
        .into_iter()
        .flatten()
        .map(|part| ChunkKey::new(instance_id, part))
        .collect();
    delete(container, &keys).await
}

fn keys_of(chunked: &Chunked) -> Vec<ChunkKey> {
    let parts = chunked.parts();
    parts
        .map(|part| ChunkKey::new(&*chunked.instance_id, part))
        .collect()
}

/// Deletes chunks. A missing chunk is not an error.
async fn delete(container: &ContainerClient<Durable>, keys: &[ChunkKey]) -> Result<()> {
    for keys in keys.chunks(BULK_CHUNKS) {
        let mut bulk = BulkBatch::<Durable>::new();
        for key in keys {
            bulk.delete(key)?;
        }
        for result in container.execute_bulk(&bulk).await {
            match result {
                Err(error) if !error.is_not_found() => {
                    return Err(error.into());
                }
                _ => {}
            }
        }
    }
    Ok(())
}
