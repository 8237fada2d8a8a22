//! Deletes delivered intents together with their chunks.

use cdb_model::Batch;

use super::deadline::in_time;
use crate::error::Error;
use crate::queue::Services;
use crate::queue::intents::Intent;
use crate::stored::documents::Durable;
use crate::stored::spill::ConsumedChunks;

/// Deletes an intent and its chunks.
pub(super) async fn remove(services: &Services, intent: &Intent) {
    let document = intent.document();
    let mut batch = Batch::<Durable>::new(&*document.instance_id);
    let consumed_chunks =
        ConsumedChunks::of_chunked(&document.instance_id, services.store.now(), &document.more);
    let built = intent
        .add_delete(&mut batch)
        .and_then(|()| consumed_chunks.add_to(&mut batch));
    if let Err(error) = built {
        tracing::warn!(%error, "cannot delete a delivered intent");
        return;
    }
    let sent = async { Ok(services.container().execute(&batch).await?) };
    match in_time(sent).await {
        Ok(_) => consumed_chunks.remove(&services.store),
        Err(Error::Request(error)) if error.is_not_found() || error.is_precondition_failed() => {}
        Err(error) => {
            tracing::debug!(%error, "a delivered intent was not deleted; retrying in the next round");
        }
    }
}
