//! Deletes delivered intents together with their chunks.

use cdb_model::{Batch, BatchError, Stored};

use crate::documents::{Durable, OutboxIntent, OutboxIntentKey};
use crate::services::Services;
use crate::spill::ConsumedChunks;

/// Deletes an intent that has chunks.
pub(super) async fn chunked(services: &Services, intent: &OutboxIntent) {
    let key = OutboxIntentKey::new(&*intent.instance_id, &*intent.idempotency_key);
    remove(services, intent, |batch| batch.delete(&key).map(|_| ())).await;
}

/// Deletes an intent by its stored id, which differs in containers of `duroxide-cdb`.
pub(super) async fn stored(services: &Services, stored: &Stored<OutboxIntent>) {
    remove(services, &stored.document, |batch| {
        batch.delete_stored(stored).map(|_| ())
    })
    .await;
}

async fn remove(
    services: &Services,
    intent: &OutboxIntent,
    delete: impl FnOnce(&mut Batch<Durable>) -> Result<(), BatchError>,
) {
    let mut batch = Batch::<Durable>::new(&*intent.instance_id);
    let consumed_chunks =
        ConsumedChunks::of_chunked(&intent.instance_id, services.store.now(), &intent.more);
    let built = delete(&mut batch).and_then(|()| consumed_chunks.add_to(&mut batch));
    if let Err(error) = built {
        tracing::warn!(%error, "cannot delete a delivered intent");
        return;
    }
    match services.container().execute(&batch).await {
        Ok(_) => consumed_chunks.remove(services),
        Err(error) if error.is_not_found() || error.is_precondition_failed() => {}
        Err(error) => {
            tracing::debug!(%error, "a delivered intent was not deleted; retrying in the next round");
        }
    }
}
