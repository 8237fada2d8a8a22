//! Work that comes from outside of a turn: starts, events, cancellations.

use std::time::Duration;

use cdb_client::machine_now;
use cdb_coordination::{Fenced, Proof, execute_proven};
use cdb_model::{Batch, Document, Timestamp};
use duroxide::providers::WorkItem;

use crate::admission;
use crate::documents::{Chunked, Durable, OrchestratorItem, WorkerItem, target_instance};
use crate::error::{Error, Result, committed};
use crate::services::Services;
use crate::spill::Spilling;
use crate::turn::{Message, Prelock, enqueued};

/// Implements `Provider::enqueue_for_orchestrator`.
pub(crate) async fn message(
    inner: &Services,
    item: &WorkItem,
    delay: Option<Duration>,
) -> Result<()> {
    admission::check_item(item)?;
    let now = inner.enqueue_time();
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
    inner
        .limits
        .check_value("the message", document.work_item.bytes())?;
    let mut document = inner.reserve_if_ours(document, item, now);
    if !Chunked::fits(document.work_item.outline()) {
        return large_message(inner, document, due.since(now)).await;
    }
    // Until its answer arrives it may be sent again, also when it has been consumed meanwhile. Of a start or a
    // cancellation the second one changes nothing; an event would happen twice.
    document.delivered = matches!(
        item,
        WorkItem::ExternalRaised { .. } | WorkItem::QueueMessage { .. }
    );
    if due <= now
        && let Some(turn) = Prelock::of_start(inner, item)
    {
        match start(inner, turn, &document, item).await {
            Ok(true) => return Ok(()),
            // The instance exists already, or the store is away: as if nothing had been tried.
            Ok(false) => {}
            Err(error) => return Err(error),
        }
    }
    let after = due.since(now);
    match inner.container.ensure(&document).await {
        Ok(Some(written)) => {
            if let Some(message) = Message::written(document, item.clone(), written.etag) {
                inner.instances.expect(message);
            }
        }
        // An earlier try has stored it.
        Ok(None) => inner
            .instances
            .suspect(target_instance(item), document.execution_id, after),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Enqueues a message that is too large for a document: its chunks first.
async fn large_message(
    inner: &Services,
    mut document: OrchestratorItem,
    after: Duration,
) -> Result<()> {
    let mut spilling = Spilling::new(inner, &document.instance_id);
    spilling.relieve_message(&mut document.work_item)?;
    let mut batch = Batch::<Durable>::new(&*document.instance_id);
    batch
        .create(&document)
        .and_then(|_| spilling.settle(&mut batch))?;
    spilling.write(inner).await?;
    let fenced = execute_proven(&inner.container, &batch, &spilling.proof()).await?;
    if let Err(error) = committed(fenced) {
        spilling.give_up(inner);
        return Err(error);
    }
    inner
        .instances
        .suspect(&document.instance_id, document.execution_id, after);
    Ok(())
}

/// Creates the start message together with the locked instance. `false` when the instance exists already, or
/// when nobody knows.
async fn start(
    inner: &Services,
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
    let outcome = match execute_proven(&inner.container, &batch, &proof).await {
        Ok(Fenced::Refused(error)) if error.is_conflict() => return Ok(false),
        Ok(Fenced::Unknown(_)) | Err(_) => {
            turn.lost_sight();
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
        None => turn.lost_sight(),
    }
    Ok(true)
}

/// Implements `Provider::enqueue_for_worker`.
pub(crate) async fn activity(inner: &Services, item: &WorkItem) -> Result<()> {
    admission::check_item(item)?;
    let document = WorkerItem::new(item, inner.enqueue_time())?.ok_or_else(|| {
        Error::Refused(
            "only ActivityExecute goes to the worker queue; use enqueue_for_orchestrator"
                .to_owned(),
        )
    })?;
    inner.container.ensure(&document).await?;
    inner.activities.poll_soon();
    Ok(())
}
