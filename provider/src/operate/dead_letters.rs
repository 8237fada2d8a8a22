//! Dead letters of the outbox: list, redeliver, discard.

use cdb_client::ContainerClient;
use cdb_model::{Batch, Patch, Query, Stored};

use crate::error::Result;
use crate::stored::Store;
use crate::stored::documents::{Durable, NEVER, OutboxIntent};
use crate::stored::spill::ConsumedChunks;

/// Returns up to `most` dead letters.
pub(crate) async fn list(store: &Store, most: u32) -> Result<Vec<Stored<OutboxIntent>>> {
    let query = Query::<OutboxIntent>::across_partitions()
        .filter(OutboxIntent::CREATED_AT.ge(NEVER))
        .order_by(OutboxIntent::BY_CREATED)
        .limit(most);
    let found = store.container.query(query).row_by_row().all().await?;
    // An undecodable intent is reported when it becomes a dead letter.
    Ok(store.corrupt_documents.readable(found))
}

/// Redelivers a dead letter as a new message.
pub(crate) async fn redeliver(store: &Store, dead_letter: &Stored<OutboxIntent>) -> Result<()> {
    let container = &store.container;
    let patch = Patch::new()
        .set(OutboxIntent::ATTEMPT_COUNT, 0)
        .set(OutboxIntent::COMMITTED_AT, None)
        .set(OutboxIntent::CREATED_AT, container.now());
    // Only this patch, or another operator's, changes the time [`NEVER`]. A missing intent was
    // delivered, or discarded by another operator.
    let is_redelivered =
        |now: Option<OutboxIntent>| now.is_some_and(|intent| intent.created_at < NEVER);
    match container.run(patch.at(dead_letter)).await {
        Err(error)
            if error.is_ambiguous() && is_now(container, dead_letter, is_redelivered).await =>
        {
            Ok(())
        }
        written => Ok(written.map(drop)?),
    }
}

/// Discards a dead letter with its chunks.
pub(crate) async fn discard(store: &Store, dead_letter: &Stored<OutboxIntent>) -> Result<()> {
    let (container, intent) = (&store.container, &dead_letter.document);
    let mut batch = Batch::<Durable>::new(&*intent.instance_id);
    let consumed_chunks =
        ConsumedChunks::of_chunked(&intent.instance_id, store.now(), &intent.more);
    batch.add(dead_letter.delete())?;
    consumed_chunks.add_to(&mut batch)?;
    match container.execute(&batch).await {
        Err(error)
            if error.is_ambiguous()
                && is_now(container, dead_letter, |now| now.is_none()).await => {}
        executed => drop(executed?),
    }
    consumed_chunks.remove(store);
    Ok(())
}

/// Reads whether an intent meets a condition now; `None` stands for a deleted one. Returns `false`
/// when this cannot be read.
async fn is_now(
    container: &ContainerClient<Durable>,
    intent: &Stored<OutboxIntent>,
    condition: impl FnOnce(Option<OutboxIntent>) -> bool,
) -> bool {
    let found = container.latest_committed().read(intent).await;
    found.is_ok_and(|found| condition(found.map(|stored| stored.document)))
}
