//! Work that comes from outside of a turn: starts, events, cancellations.

use std::time::Duration;

use cdb_client::machine_now;
use cdb_coordination::{Fenced, Proof, execute_proven};
use cdb_model::{Batch, Document, Timestamp};
use duroxide::providers::WorkItem;

use crate::admission;
use crate::documents::{Chunked, Durable, OrchestratorItem, WorkerItem, target_instance};
use crate::error::{Error, Result, committed};
use crate::instances::Message;
use crate::services::Services;
use crate::spill::Spilling;
use crate::store::Store;
use crate::turn::{Prelock, enqueued};

/// Implements `Provider::enqueue_for_orchestrator`.
pub(crate) async fn message(
    services: &Services,
    item: &WorkItem,
    delay: Option<Duration>,
) -> Result<()> {
    admission::check_item(item)?;
    let now = services.store.enqueue_time();
    let delay = delay.unwrap_or_default();
    let due = match item {
        WorkItem::TimerFired { fire_at_ms, .. } => {
            let left = Timestamp::from_millis(*fire_at_ms).since(machine_now());
            now + left.max(delay)
        }
        _ => now + delay,
    };
    // Chosen before the first try, so that sending it twice stores it once.
    let cause = uuid::Uuid::new_v4().to_string();
    let document = OrchestratorItem::new(item, cause, due, now)?;
    services
        .store
        .limits
        .check_value("the message", document.work_item.bytes())?;
    let mut document = services.queues.reserve_if_local(document, item, now);
    if !Chunked::fits(document.work_item.header()) {
        return large_message(services, document, due.since(now)).await;
    }
    // Until its answer arrives it may be sent again, also when it has been consumed meanwhile. Of a start or a
    // cancellation the second one changes nothing; an event would happen twice.
    document.delivered = matches!(
        item,
        WorkItem::ExternalRaised { .. } | WorkItem::QueueMessage { .. }
    );
    if due <= now
        && let Some(turn) = Prelock::of_start(services, item)
    {
        match start(&services.store, turn, &document, item).await {
            Ok(true) => return Ok(()),
            // The instance exists already, or the store is away: as if nothing had been tried.
            Ok(false) => {}
            Err(error) => return Err(error),
        }
    }
    let after = due.since(now);
    match services.container().ensure(&document).await {
        Ok(Some(written)) => {
            if let Some(message) = Message::written(document, item.clone(), written.etag) {
                services.instances().expect(message);
            }
        }
        // An earlier try has stored it.
        Ok(None) => {
            services
                .instances()
                .suspect(target_instance(item), document.execution_id, after);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Enqueues a message that is too large for a document: its chunks first.
async fn large_message(
    services: &Services,
    mut document: OrchestratorItem,
    after: Duration,
) -> Result<()> {
    let mut spilling = Spilling::new(&document.instance_id, services.store.now());
    spilling.relieve_message(&mut document.work_item)?;
    let mut batch = Batch::<Durable>::new(&*document.instance_id);
    batch
        .create(&document)
        .and_then(|_| spilling.settle(&mut batch))?;
    spilling.write(&services.store).await?;
    let fenced = execute_proven(services.container(), &batch, &spilling.proof()).await?;
    if let Err(error) = committed(fenced) {
        spilling.give_up(services);
        return Err(error);
    }
    services
        .instances()
        .suspect(&document.instance_id, document.execution_id, after);
    Ok(())
}

/// Creates the start message together with the locked instance. `false` when the instance exists already, or
/// when nobody knows.
async fn start(
    store: &Store,
    mut turn: Prelock<'_>,
    document: &OrchestratorItem,
    item: &WorkItem,
) -> Result<bool> {
    let mut batch = Batch::new(&*document.instance_id);
    let added = batch
        .create(document)
        .and_then(|operation| turn.add_to(&mut batch, document).map(|()| operation));
    let Ok(operation) = added else {
        return Ok(false);
    };
    let proof = Proof::Created(document.key());
    let outcome = match execute_proven(&store.container, &batch, &proof).await {
        Ok(Fenced::Refused(error)) if error.is_conflict() => return Ok(false),
        Ok(Fenced::Unknown(_)) | Err(_) => {
            turn.outcome_unknown();
            return Ok(false);
        }
        Ok(fenced) => committed(fenced)?,
    };
    let message = outcome.as_ref().and_then(|outcome| {
        let etag = turn.operation().and_then(|lock| outcome.etag(lock))?;
        let message = enqueued(outcome, operation, document.clone(), item.clone())?;
        Some((etag.clone(), message))
    });
    match message {
        Some((etag, message)) => turn.won(&etag, message),
        None => turn.outcome_unknown(),
    }
    Ok(true)
}

/// Implements `Provider::enqueue_for_worker`.
pub(crate) async fn activity(services: &Services, item: &WorkItem) -> Result<()> {
    admission::check_item(item)?;
    let document = WorkerItem::new(item, services.store.enqueue_time())?.ok_or_else(|| {
        Error::Refused(
            "only ActivityExecute goes to the worker queue; use enqueue_for_orchestrator"
                .to_owned(),
        )
    })?;
    services.container().ensure(&document).await?;
    services.activities().poll_soon();
    Ok(())
}
