//! Work from outside of a turn: starts, events, cancellations.

use std::time::Duration;

use cdb_coordination::execute_proven;
use cdb_model::{Batch, Document};
use duroxide::providers::WorkItem;
use tokio::time::Instant;

use crate::error::{Error, Result, committed};
use crate::queue::Services;
use crate::queue::instances::Message;
use crate::stored::admission;
use crate::stored::documents::{
    Chunked, Durable, Labels, OperatorAction, OrchestratorItem, WorkerItem, target_instance,
};
use crate::stored::spill::Spilling;

/// Implements `Provider::enqueue_for_orchestrator`. `origin` is the operator's change that starts an
/// instance.
pub(crate) async fn message(
    services: &Services,
    mut item: WorkItem,
    delay: Option<Duration>,
    origin: Option<OperatorAction>,
) -> Result<()> {
    admission::check_item(&item)?;
    services.store.payloads.encode_message(&mut item)?;
    let item = &item;
    // The time of the write may be ahead of the clock, and would delay the messages of a burst.
    let now = services.store.now();
    let enqueued_at = services.store.enqueue_time();
    let due = now + delay.unwrap_or_default();
    // Chosen before the first attempt, so that a repeated send stores one message.
    let cause = uuid::Uuid::new_v4().to_string();
    let mut document = OrchestratorItem::new(item, cause, due, enqueued_at)?;
    document.origin = origin;
    let limits = services.store.limits;
    limits.check_value("the message", document.work_item.bytes())?;
    let mut document = services.queues.reserve_if_local(document, item, now);
    let is_large = !Chunked::fits(document.work_item.header());
    // Until the answer arrives, the message may be sent again, even after it was consumed. A second
    // start or cancellation changes nothing; a second event would be raised twice. The chunks of a
    // large message exist once.
    document.delivered = is_large
        || matches!(
            item,
            WorkItem::ExternalRaised { .. } | WorkItem::QueueMessage { .. }
        );
    if is_large {
        return large_message(services, document).await;
    }
    create(services, document, item).await
}

/// Creates the document of a message, and notes the message in the local queue.
async fn create(services: &Services, document: OrchestratorItem, item: &WorkItem) -> Result<()> {
    let sent_at = Instant::now();
    let written = services.container().create_if_missing(&document).await;
    if let Ok(Some(written)) = written {
        let message = Message::written(document, item.clone(), written.etag, sent_at);
        if let Some(message) = message {
            services.instances().note_message(message);
        }
        return Ok(());
    }
    // An earlier attempt stored the message, or it may be stored.
    let (execution, due_at) = (document.execution_id, document.due_at());
    services
        .instances()
        .recheck(target_instance(item), execution, due_at);
    written?;
    Ok(())
}

/// Enqueues a message that is too large for one document: its chunks first.
async fn large_message(services: &Services, mut document: OrchestratorItem) -> Result<()> {
    let mut spilling = Spilling::new(&document.instance_id, services.store.now());
    spilling.spill_message(&mut document.work_item)?;
    let mut batch = Batch::<Durable>::new(&*document.instance_id);
    batch
        .add(document.create())
        .and_then(|_| spilling.confirm(&mut batch))?;
    spilling.write(&services.store).await?;
    let fenced = execute_proven(services.container(), &batch, &document.key()).await?;
    if let Err(error) = committed(fenced) {
        spilling.release(&services.store);
        return Err(error);
    }
    let (execution, due_at) = (document.execution_id, document.due_at());
    services
        .instances()
        .recheck(&document.instance_id, execution, due_at);
    Ok(())
}

/// Implements `Provider::enqueue_for_worker`.
pub(crate) async fn activity(services: &Services, mut item: WorkItem) -> Result<()> {
    admission::check_item(&item)?;
    services.store.payloads.encode_message(&mut item)?;
    let document = WorkerItem::new(&item, services.store.now())?.ok_or_else(|| {
        Error::Refused(
            "the worker queue takes only ActivityExecute; use enqueue_for_orchestrator".to_owned(),
        )
    })?;
    let of_instance = services.store.labels.of(&document.instance_id);
    let document = document.with_labels(&Labels::of_instance(of_instance));
    services.container().create_if_missing(&document).await?;
    services.activities().local().poll_soon();
    Ok(())
}
