//! Withdraws the large messages that a deleted instance has not delivered yet. Their chunks are
//! already in the partitions of the targets, where no sweep would find them.
//!
//! A message is delivered under a derived id. Withdrawing creates its trace under that id, so that
//! it cannot be delivered any more, and deletes its chunks. If the id is taken, the message was
//! delivered, and the chunks belong to the target.

use cdb_client::{ContainerClient, ErrorKind};
use cdb_model::{Document, Stored};

use super::row::Row;
use crate::delivery::Documents;
use crate::error::Result;
use crate::stored::documents::{Chunked, Durable, NEVER, OrchestratorItem, OutboxIntent, Spill};
use crate::stored::spill;

/// Withdraws the undelivered messages of a partition's documents. Removes from `rows` the spills
/// that were deleted. A spill whose commit has just arrived stays in `rows`, and its deletion will
/// fail.
///
/// # Errors
/// Fails when the service does not tell whether a message was delivered.
pub(super) async fn from_targets(
    container: &ContainerClient<Durable>,
    rows: &mut Vec<Row>,
) -> Result<()> {
    let mut released = Vec::new();
    for row in rows.iter() {
        let Some(document) = &row.document else {
            continue;
        };
        match document {
            Durable::OutboxIntent(intent) => messages(container, intent).await?,
            Durable::Spill(spill) if spill.texts.iter().any(|text| is_foreign(spill, text)) => {
                let is_released = spill::release_now(container, spill, None).await?;
                if is_released {
                    released.push(row.location.id.clone());
                }
            }
            _ => {}
        }
    }
    rows.retain(|row| !released.contains(&row.location.id));
    Ok(())
}

fn is_foreign(spill: &Spill, text: &Chunked) -> bool {
    text.instance_id != spill.instance_id
}

async fn messages(container: &ContainerClient<Durable>, intent: &OutboxIntent) -> Result<()> {
    let documents = match Documents::of(container, intent).await {
        Ok(documents) => documents,
        Err(error) if error.is_retryable() => return Err(error),
        // No runtime can deliver the message either.
        Err(error) => {
            tracing::warn!(instance = %intent.instance_id, %error, "cannot decode messages of a deleted instance; their chunks stay in the partitions of the targets");
            return Ok(());
        }
    };
    for (message, _) in documents.messages {
        let Some(chunked) = message.work_item.chunked().cloned() else {
            continue;
        };
        if chunked.instance_id != intent.instance_id && !is_delivered(container, message).await? {
            spill::delete_chunks(container, chunked.into_keys()).await?;
        }
    }
    Ok(())
}

/// Returns whether a message was delivered and still waits. Otherwise prevents its delivery.
async fn is_delivered(
    container: &ContainerClient<Durable>,
    message: OrchestratorItem,
) -> Result<bool> {
    let trace = message.into_trace();
    if container.create_if_missing(&trace).await?.is_some() {
        return Ok(false);
    }
    let found = container.latest_committed().read(&trace.key()).await;
    let found: Option<Stored<OrchestratorItem>> = match found {
        // Delivered, but undecodable: its chunks are deleted with its target.
        Err(error) if error.kind() == ErrorKind::Decode => return Ok(true),
        found => found?,
    };
    Ok(found.is_some_and(|stored| stored.document.visible_at != NEVER))
}
