//! Delivers intents: creates their documents in the partitions of the targets. The dispatcher of
//! the outbox controls rounds, backoff and dead letters.

use std::collections::BTreeSet;

use cdb_coordination::retry::DeliveryError;
use cdb_model::Batch;
use duroxide::providers::WorkItem;
use futures::StreamExt as _;
use futures::{future, stream};

use super::activities;
use super::deadline::{bulk_in_time, in_time};
use super::documents::Documents;
use super::messages::DeliveryBatch;
use super::starts::starts_child_of;
use crate::error::{Error, Result};
use crate::queue::intents::Intent;
use crate::queue::local_queue::Caller;
use crate::queue::{CONCURRENCY, Services};
use crate::stored::documents::{
    Durable, NEVER, OrchestratorItem, OutboxIntent, WorkerItemKey, target_instance,
};
use crate::stored::spill::ConsumedChunks;

/// The operations that take as long as the read of a chunk.
const OPERATIONS_PER_CHUNK: usize = 100;

/// Why an old intent is not delivered.
const TOO_OLD: &str = "the commit is older than 23 h, so the traces of an earlier delivery may be \
     gone, and a redelivery could repeat messages; check the target, then redrive or discard";

/// Delivers new intents: for a runtime in the background. Another caller sees the effects on other
/// instances at once. Failures are left to the reconciler.
pub(crate) async fn deliver_all(services: &Services, intents: Vec<OutboxIntent>, caller: Caller) {
    if intents.is_empty() {
        return;
    }
    if caller.is_runtime() {
        services.spawn(|services| async move { deliver_new(&services, intents).await });
    } else {
        deliver_new(services, intents).await;
    }
}

/// Delivers new intents, and waits for their delivery.
async fn deliver_new(services: &Services, intents: Vec<OutboxIntent>) {
    let intents = intents.into_iter().map(Intent::Fresh).collect();
    let handover = services.delivery.outbox.hand_over(intents);
    if handover.must_work {
        services.spawn(|services| async move { services.delivery.outbox.work(&services).await });
    }
    // A stopped provider delivers nothing more.
    tokio::select! {
        () = handover.done() => {}
        () = services.store.tasks.stopped() => {}
    }
}

/// The part of an intent that a batch delivers.
struct Prepared {
    messages: Vec<(OrchestratorItem, WorkItem)>,
    /// Large cancelled activities that did not exist.
    missing: BTreeSet<WorkerItemKey>,
}

/// Checks an intent, and delivers the activities and large cancellations of the intent.
async fn prepare(services: &Services, intent: &Intent) -> Result<Prepared, DeliveryError> {
    let document = intent.document();
    let target = &document.target_instance_id;
    match intent {
        Intent::Found(_) if document.is_too_old(services.store.now()) => {
            return Err(DeliveryError::permanent(TOO_OLD));
        }
        // A round would wait for the target again. The reconciler delivers the intent.
        Intent::Fresh(_) if services.is_unreachable(target) => {
            let reason = format!("an earlier request to {target} failed");
            return Err(DeliveryError::unreachable(reason));
        }
        Intent::Fresh(_) | Intent::Found(_) => {}
    }
    let prepared: Result<Prepared> = async {
        let documents = Documents::of(services.container(), document);
        let documents = bulk_in_time(operations_to_read(document), documents).await?;
        activities::deliver(services, document, &documents.activities).await?;
        Ok(Prepared {
            messages: documents.messages,
            missing: activities::delete_large(services, document).await?,
        })
    }
    .await;
    prepared.map_err(|error| DeliveryError::from(&error))
}

/// Returns the deadline of reading an intent's chunks, in operations. A read that exceeds it starts
/// over, and a container with little throughput takes a second per chunk.
fn operations_to_read(intent: &OutboxIntent) -> usize {
    let chunks = intent.more.as_ref().map_or(0, |more| more.chunks);
    usize::try_from(chunks)
        .unwrap_or(usize::MAX)
        .saturating_mul(OPERATIONS_PER_CHUNK)
}

/// Creates the documents of intents, and deletes intents that were delivered earlier.
pub(super) async fn deliver(
    services: &Services,
    intents: &[Intent],
    delivered: &[Intent],
) -> Vec<Result<(), DeliveryError>> {
    let mut batch = DeliveryBatch::default();
    remove_delivered(services, delivered, &mut batch).await;
    let prepare: Vec<_> = intents
        .iter()
        .map(|intent| prepare(services, intent))
        .collect();
    let prepared: Vec<_> = stream::iter(prepare).buffered(CONCURRENCY).collect().await;
    let mut results = Vec::with_capacity(intents.len());
    for (number, (prepared, intent)) in prepared.into_iter().zip(intents).enumerate() {
        results.push(match prepared {
            Ok(prepared) => pack(services, &mut batch, number, intent.document(), prepared)
                .await
                .map_err(|error| DeliveryError::from(&error)),
            Err(failure) => Err(failure),
        });
    }
    let outcome = batch.send(services).await;
    for (number, missing) in outcome.missing {
        if results[number].is_ok() {
            let intent = intents[number].document();
            let confirmed = activities::confirm_missing(services, intent, &missing).await;
            results[number] = confirmed.map_err(|error| DeliveryError::from(&error));
        }
    }
    for (number, failure) in outcome.failures {
        results[number] = Err(DeliveryError::from(&failure));
    }
    results
}

/// Deletes delivered intents: found ones and those with chunks at once, the others with the batch.
async fn remove_delivered(
    services: &Services,
    delivered: &[Intent],
    batch: &mut DeliveryBatch<'_>,
) {
    let mut separate = Vec::new();
    for intent in delivered {
        match intent {
            Intent::Fresh(intent) if intent.more.is_none() => batch.remove(services, intent).await,
            intent => separate.push(remove(services, intent)),
        }
    }
    let removals = stream::iter(separate).buffer_unordered(CONCURRENCY);
    removals.for_each(|()| future::ready(())).await;
}

/// Deletes an intent and its chunks.
async fn remove(services: &Services, intent: &Intent) {
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
    match in_time(services.container().execute(&batch)).await {
        Ok(_) => consumed_chunks.remove(&services.store),
        Err(Error::Request(error)) if error.is_not_found() || error.is_precondition_failed() => {}
        Err(error) => {
            tracing::debug!(%error, "a delivered intent was not deleted; retrying in the next round");
        }
    }
}

/// Adds the messages and small cancellations of intent number `number` to the batch.
async fn pack<'a>(
    services: &'a Services,
    batch: &mut DeliveryBatch<'a>,
    number: usize,
    intent: &OutboxIntent,
    prepared: Prepared,
) -> Result<()> {
    for (document, item) in prepared.messages {
        batch.add(services, number, document, item).await?;
    }
    for activity in activities::small(intent) {
        batch.cancel(services, number, activity).await?;
    }
    for activity in prepared.missing {
        batch.outcome.note_missing(number, activity);
    }
    Ok(())
}

/// Delivers the messages of an instance that is about to be deleted with these intents. Leaves out
/// dead letters, messages to itself, and starts of its children, which end with it.
///
/// # Errors
/// Fails with [`Error::Undelivered`] when a message is not delivered.
pub(crate) async fn deliver_before_deletion(
    services: &Services,
    intents: impl Iterator<Item = &OutboxIntent> + Send,
) -> Result<()> {
    let mut batch = DeliveryBatch::default();
    let mut sent = Vec::new();
    for intent in intents.filter(|intent| intent.created_at != NEVER) {
        let packed = pack_last(services, &mut batch, sent.len(), intent).await;
        packed.map_err(|error| undelivered(intent, &error))?;
        sent.push(intent);
    }
    match batch.send(services).await.failures.first() {
        Some((number, error)) => Err(undelivered(sent[*number], error)),
        None => Ok(()),
    }
}

async fn pack_last<'a>(
    services: &'a Services,
    batch: &mut DeliveryBatch<'a>,
    number: usize,
    intent: &OutboxIntent,
) -> Result<()> {
    if intent.is_too_old(services.store.now()) {
        return Err(Error::Refused(TOO_OLD.to_owned()));
    }
    let id = &intent.instance_id;
    let documents = Documents::of(services.container(), intent);
    let mut messages = bulk_in_time(operations_to_read(intent), documents)
        .await?
        .messages;
    messages.retain(|(_, item)| !starts_child_of(id, item) && target_instance(item) != id);
    for (document, item) in messages {
        batch.add(services, number, document, item).await?;
    }
    Ok(())
}

fn undelivered(intent: &OutboxIntent, error: &Error) -> Error {
    Error::Undelivered(format!(
        "instance `{}` has an undelivered message for `{}` and is kept: {error}",
        intent.instance_id, intent.target_instance_id
    ))
}
