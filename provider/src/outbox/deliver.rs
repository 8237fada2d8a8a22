//! From intents to documents in their targets' partitions. Rounds, waiting and giving up are the dispatcher's.

use super::documents::Documents;
use super::intent::Intent;
use super::messages::Mailbag;
use super::{activities, cancelled, remove};
use crate::documents::OutboxIntent;
use crate::error::Result;
use crate::services::Services;

/// Delivers fresh intents, and waits for their turn. What fails is left to the reconciler.
pub(crate) async fn deliver_all(services: &Services, intents: Vec<OutboxIntent>) {
    let parcels = intents.into_iter().map(Intent::Fresh).collect();
    let handover = services.delivery.outbox.hand_over(parcels);
    if handover.must_work {
        services.spawn(|services| async move { services.delivery.outbox.work(&services).await });
    }
    // A provider that has ended delivers nothing more.
    tokio::select! {
        () = handover.done() => {}
        () = services.tasks.stopped() => {}
    }
}

/// Puts the messages of intent number `number` into the bag, and sees to the rest of it.
async fn pack<'a>(
    services: &'a Services,
    bag: &mut Mailbag<'a>,
    (number, intent): (usize, &OutboxIntent),
) -> Result<()> {
    let documents = Documents::of(
        services.container(),
        || services.store.enqueue_time(),
        intent,
    )
    .await?;
    let mut messages = documents.messages.into_iter();
    messages.try_for_each(|message| bag.put(services, number, message))?;
    activities::deliver(services, intent, &documents.activities).await?;
    cancelled::deliver(services, bag, (number, intent)).await
}

/// Creates the documents of intents, wakes who waits for them, and removes intents that were delivered earlier.
pub(super) async fn deliver(
    services: &Services,
    intents: &[Intent],
    delivered: &[Intent],
) -> Vec<Result<()>> {
    let mut results: Vec<Result<()>> = Vec::with_capacity(intents.len());
    let mut bag = Mailbag::default();
    for intent in delivered {
        match intent {
            Intent::Fresh(intent) if intent.more.is_some() => {
                remove::chunked(services, intent).await;
            }
            Intent::Fresh(intent) => bag.remove(intent),
            Intent::Found(stored) => remove::stored(services, stored).await,
        }
    }
    for (number, intent) in intents.iter().map(Intent::document).enumerate() {
        results.push(pack(services, &mut bag, (number, intent)).await);
    }
    let sent = bag.send(services).await;
    for (number, missing) in sent.missing {
        if results[number].is_ok() {
            let intent = intents[number].document();
            results[number] = cancelled::see_off(services, intent, &missing).await;
        }
    }
    for (number, failure) in sent.failures {
        results[number] = Err(failure);
    }
    results
}
