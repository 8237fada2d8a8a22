//! What an instance that is deleted has under way for others, and is large: its parts are in the partitions of the targets
//! already, where nothing would ever look for them.
//!
//! Whether a message arrives is decided by its derived id. Here its trace is created in its place: then it can arrive no more,
//! and its parts go. Where the id is taken, it has arrived, and they are the target's.

use cdb_client::{ContainerClient, ErrorKind};
use cdb_model::{Document, Stored};

use super::chunks;
use super::row::Row;
use crate::documents::{Chunked, Durable, NEVER, OrchestratorItem, OutboxIntent, Spill};
use crate::error::Result;
use crate::outbox::Documents;
use crate::spill;

/// Withdraws what the documents of a partition have under way for others. Spills that were removed are taken out of
/// `rows`; one whose commit has just come stays among them, and cannot be deleted any more.
///
/// # Errors
/// When the service does not say whether a message has arrived.
pub(super) async fn from_targets(
    container: &ContainerClient<Durable>,
    rows: &mut Vec<Row>,
) -> Result<()> {
    let mut gone = Vec::new();
    for row in rows.iter() {
        let Some(document) = &row.document else {
            continue;
        };
        match document {
            Durable::OutboxIntent(intent) => messages(container, intent).await?,
            Durable::Spill(spill) if spill.texts.iter().any(|text| is_foreign(spill, text)) => {
                let is_given_up = spill::give_up_now(container, spill).await?;
                if is_given_up {
                    gone.push(row.location.id.clone());
                }
            }
            _ => {}
        }
    }
    rows.retain(|row| !gone.contains(&row.location.id));
    Ok(())
}

fn is_foreign(spill: &Spill, text: &Chunked) -> bool {
    text.instance_id != spill.instance_id
}

async fn messages(container: &ContainerClient<Durable>, intent: &OutboxIntent) -> Result<()> {
    let documents = match Documents::of(container, || container.now(), intent).await {
        Ok(documents) => documents,
        Err(error) if error.is_retryable() => return Err(error),
        // Nobody can deliver it either.
        Err(error) => {
            tracing::warn!(instance = %intent.instance_id, %error, "parts of messages that cannot be read stay with their targets");
            return Ok(());
        }
    };
    for (message, _) in documents.messages {
        let Some(chunked) = message.work_item.chunked().cloned() else {
            continue;
        };
        if chunked.instance_id != intent.instance_id && !arrives(container, message).await? {
            chunks::delete_text(container, &chunked).await?;
        }
    }
    Ok(())
}

/// Whether a message has arrived and waits there. If not, it never will.
async fn arrives(container: &ContainerClient<Durable>, message: OrchestratorItem) -> Result<bool> {
    let trace = message.into_trace();
    if container.ensure(&trace).await?.is_some() {
        return Ok(false);
    }
    let found = container.latest_committed().read(&trace.key()).await;
    let found: Option<Stored<OrchestratorItem>> = match found {
        // It has arrived, whatever became of it there: its parts go with its target.
        Err(error) if error.kind() == ErrorKind::Decode => return Ok(true),
        found => found?,
    };
    Ok(found.is_some_and(|stored| stored.document.visible_at != NEVER))
}
