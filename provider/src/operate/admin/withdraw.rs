//! Withdraws what a deleted instance has not delivered yet: large messages, and the starts of its children.
//! The chunks of large messages are already in the partitions of their targets, where the deletion of the
//! instance does not reach them and no sweep would find them.
//!
//! The id of a message is derived from its intent. Withdrawing creates the trace of a consumed message
//! under that id, so that a delivery conflicts, and deletes the chunks. If a message with the id still
//! waits, it was delivered, and the chunks belong to the target.

use cdb_client::{ContainerClient, ErrorKind};
use cdb_model::{Document, Query, Stored};

use super::row::Row;
use crate::delivery::{self, Documents};
use crate::error::Result;
use crate::stored::documents::{
    Chunked, Durable, Incarnation, NEVER, OrchestratorItem, OutboxIntent, Spill,
};
use crate::stored::{found, spill};

/// Withdraws the undelivered large messages of a partition, with their chunks and with those that no commit
/// refers to. Removes from `rows` the spills that were deleted. A spill whose commit has just arrived
/// stays in `rows`: its deletion fails then, and the next round reads the documents again.
///
/// # Errors
/// Fails when the service does not tell whether a message was delivered.
pub(super) async fn large_messages(
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

/// Withdraws the undelivered starts of the sender's children. Returns the children.
///
/// # Errors
/// Fails when the service does not tell whether a start was delivered.
pub(super) async fn starts(
    container: &ContainerClient<Durable>,
    intent: &OutboxIntent,
) -> Result<Vec<String>> {
    let documents = match Documents::of(container, intent).await {
        Err(error) if error.is_retryable() => return Err(error),
        // No runtime can deliver the starts either.
        Err(_) => return Ok(Vec::new()),
        Ok(documents) => documents,
    };
    let mut children = Vec::new();
    for (message, item) in documents.messages {
        if !delivery::starts_child_of(&intent.instance_id, &item) {
            continue;
        }
        children.push(message.instance_id.clone());
        let chunked = message.work_item.chunked().cloned();
        if withdraw(container, message).await?
            && let Some(chunked) = chunked
        {
            spill::delete_chunks(container, chunked.into_keys()).await?;
        }
    }
    Ok(children)
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
        if chunked.instance_id != intent.instance_id && withdraw(container, message).await? {
            spill::delete_chunks(container, chunked.into_keys()).await?;
        }
    }
    Ok(())
}

/// Prevents the delivery of a message. Returns `false` if it was delivered and still waits, so that its
/// chunks belong to its target.
async fn withdraw(container: &ContainerClient<Durable>, message: OrchestratorItem) -> Result<bool> {
    let trace = message.into_trace();
    if container.create_if_missing(&trace).await?.is_some() {
        return Ok(true);
    }
    let found = container.latest_committed().read(&trace.key()).await;
    let found: Option<Stored<OrchestratorItem>> = match found {
        // Delivered, but undecodable: its chunks are deleted with its target.
        Err(error) if error.kind() == ErrorKind::Decode => return Ok(false),
        found => found?,
    };
    Ok(found.is_none_or(|stored| stored.document.visible_at == NEVER))
}

/// Deletes the undelivered intents of an instance whose targets are deleted with it: `ids`. Intents with
/// chunks stay, because [`large_messages`] withdraws them.
pub(super) async fn drop_intents(
    container: &ContainerClient<Durable>,
    instance: &Incarnation,
    ids: &[String],
) -> Result<()> {
    let all = Query::<OutboxIntent>::in_partition(&*instance.instance_id);
    let found = container.query(all).row_by_row().all().await?;
    let mut found: Vec<_> = found.into_iter().flatten().collect();
    found.retain(|stored| {
        let intent = &stored.document;
        !intent.has_chunks() && ids.contains(&intent.target_instance_id)
    });
    // A later instance with the same id needs its intents, which start its children.
    if found.is_empty() || !found::is_there(container, instance).await? {
        return Ok(());
    }
    for stored in found {
        match container.run(stored.delete()).await {
            // Another runtime has delivered the intent, or noted that it could not.
            Err(error) if error.is_not_found() || error.is_precondition_failed() => {}
            // After a lost answer, the deletion of the partition reads the intents again.
            Err(error) if error.is_ambiguous() => {}
            deleted => deleted?,
        }
    }
    Ok(())
}
