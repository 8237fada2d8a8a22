//! Delivers intents: creates their documents in the partitions of the targets. The dispatcher of
//! the outbox controls rounds, backoff and dead letters.

use super::documents::Documents;
use super::intent::Intent;
use super::messages::DeliveryBatch;
use super::{activities, cancelled, remove};
use crate::documents::OutboxIntent;
use crate::error::Result;
use crate::services::Services;

/// Delivers new intents: for a long poll in the background. A caller without long polling sees the
/// effects on other instances at once. Failures are left to the reconciler.
pub(crate) async fn deliver_all(services: &Services, intents: Vec<OutboxIntent>, long_poll: bool) {
    if intents.is_empty() {
        return;
    }
    if long_poll {
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
        () = services.tasks.stopped() => {}
    }
}

/// Adds the messages of intent number `number` to the batch, and delivers its activities and
/// cancellations.
async fn pack<'a>(
    services: &'a Services,
    batch: &mut DeliveryBatch<'a>,
    number: usize,
    intent: &OutboxIntent,
) -> Result<()> {
    let documents = Documents::of(
        services.container(),
        || services.store.enqueue_time(),
        intent,
    )
    .await?;
    let mut messages = documents.messages.into_iter();
    messages.try_for_each(|(document, item)| batch.add(services, number, document, item))?;
    activities::deliver(services, intent, &documents.activities).await?;
    cancelled::deliver(services, batch, number, intent).await
}

/// Creates the documents of intents, and deletes intents that were delivered earlier.
pub(super) async fn deliver(
    services: &Services,
    intents: &[Intent],
    delivered: &[Intent],
) -> Vec<Result<()>> {
    let mut results: Vec<Result<()>> = Vec::with_capacity(intents.len());
    let mut batch = DeliveryBatch::default();
    for intent in delivered {
        match intent {
            Intent::Fresh(intent) if intent.more.is_none() => batch.remove(intent),
            intent => remove::remove(services, intent).await,
        }
    }
    for (number, intent) in intents.iter().map(Intent::document).enumerate() {
        results.push(pack(services, &mut batch, number, intent).await);
    }
    let outcome = batch.send(services).await;
    for (number, missing) in outcome.missing {
        if results[number].is_ok() {
            let intent = intents[number].document();
            results[number] = cancelled::confirm_missing(services, intent, &missing).await;
        }
    }
    for (number, failure) in outcome.failures {
        results[number] = Err(failure);
    }
    results
}
