//! The chunks of deleted documents.

use cdb_client::ContainerClient;
use cdb_model::Query;

use crate::error::Result;
use crate::stored::documents::{Chunk, ChunkKey, Chunked, Durable, Text};
use crate::stored::spill;

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
        | Durable::Limits(_)
        | Durable::LimitedKey(_)
        | Durable::RuntimeLease(_)
        | Durable::Schema(_) => Vec::new(),
    }
}

/// Returns whether a document refers to chunks.
pub(super) fn refers(document: &Durable) -> bool {
    match document {
        // Also a trace: a creation that arrived twice may have left chunks.
        Durable::Spill(_) => true,
        Durable::OutboxIntent(intent) => intent.has_chunks(),
        _ => texts(document).iter().any(|text| text.chunked().is_some()),
    }
}

/// Deletes the chunks of these documents.
pub(super) async fn delete_of(
    container: &ContainerClient<Durable>,
    documents: impl Iterator<Item = &Durable>,
) -> Result<()> {
    let texts = documents.flat_map(texts).filter_map(Text::chunked);
    let texts: Vec<Chunked> = texts.cloned().collect();
    spill::delete_chunks(container, texts.into_iter().flat_map(Chunked::into_keys)).await
}

/// Deletes all chunks in the partition of an instance.
pub(super) async fn delete_all(
    container: &ContainerClient<Durable>,
    instance_id: &str,
) -> Result<()> {
    let query = Query::<Chunk>::in_partition(instance_id).values(Chunk::PART);
    let parts = container.query(query).row_by_row().all().await?;
    // A chunk without a name was not written by this crate.
    let parts = parts.into_iter().flatten();
    let keys = parts.map(|part| ChunkKey::new(instance_id, part));
    spill::delete_chunks(container, keys).await
}
