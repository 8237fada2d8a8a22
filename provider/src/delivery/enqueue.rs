//! Work from outside of a turn: starts, events, cancellations.

use std::time::Duration;

use cdb_coordination::lease::execute_fenced_batch;
use cdb_model::{Batch, Document, ETag};
use duroxide::providers::WorkItem;
use metrics::counter;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use crate::error::{Error, Result, committed};
use crate::queue::Services;
use crate::queue::hand_over::{Answer, HandOver, Storing};
use crate::queue::instances::{Message, NextTurn};
use crate::stored::admission;
use crate::stored::documents::{
    Chunked, Durable, Labels, OperatorAction, OrchestratorItem, WorkerItem, target_instance,
};
use crate::stored::spill::Spilling;
use crate::timing::START_ANSWER;

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
    match hand_over(services, &document, item) {
        Some((over, first)) => start(services, document, item, over, first).await,
        None => create(services, document, item).await.map(drop),
    }
}

/// Hands a start over to the first turn of its instance; `None` if the message must be stored.
fn hand_over(
    services: &Services,
    document: &OrchestratorItem,
    item: &WorkItem,
) -> Option<(HandOver, NextTurn)> {
    let budget = &services.queues.hand_over;
    let is_start = matches!(item, WorkItem::StartOrchestration { .. });
    if budget.is_off() || !is_start || !document.reserved || document.origin.is_some() {
        return None;
    }
    let (over, ticket) = HandOver::of_start();
    let message = Message::unstored(document.clone(), item.clone(), ticket)?;
    let first = services.instances().hand_over_start(message, budget)?;
    Some((over, first))
}

/// Starts an instance by its first turn, or stores the start. In a task: a caller that is not polled for a
/// while must not hold the gate that the turn waits for.
///
/// # Errors
/// [`Error::Retryable`] if the turn is not committed in time. It goes on.
async fn start(
    services: &Services,
    mut document: OrchestratorItem,
    item: &WorkItem,
    over: HandOver,
    first: NextTurn,
) -> Result<()> {
    let (answer, answered) = oneshot::channel();
    let item = item.clone();
    services.spawn(|services| async move {
        let started = match first_turn(&services, &mut document, over, first).await {
            None => Ok(()),
            Some(storing) => {
                let instance_id = document.instance_id.clone();
                let stored = create(&services, document, &item).await;
                storing.end(stored.as_ref().ok().cloned().flatten());
                services.instances().withdraw(&instance_id);
                stored.map(drop)
            }
        };
        // The caller may have left.
        let _left = answer.send(started);
    });
    match timeout(START_ANSWER, answered).await {
        Ok(Ok(started)) => started,
        Ok(Err(_)) | Err(_) => Err(Error::Retryable(
            "the first turn is not committed yet; the instance may have started".to_owned(),
        )),
    }
}

/// Waits until the first turn of an instance is committed. Returns the right to store the start if none
/// has taken it.
async fn first_turn(
    services: &Services,
    document: &mut OrchestratorItem,
    over: HandOver,
    first: NextTurn,
) -> Option<Storing> {
    let Answer::Store(storing) = over.answer(first.within).await else {
        counter!("cdb.provider.starts.handed_over", "result" => "consumed").increment(1);
        return None;
    };
    counter!("cdb.provider.starts.handed_over", "result" => "stored").increment(1);
    if storing.is_late {
        let now = Instant::now().into_std();
        services
            .queues
            .hand_over
            .was_late(&first.orchestration, now);
    }
    if !storing.delay.is_zero() {
        document.reserved = false;
        document.visible_at = services.store.now() + storing.delay;
    }
    Some(storing)
}

/// Creates the document of a message, and notes the message in the local queue. Returns its version, if
/// it is known.
async fn create(
    services: &Services,
    document: OrchestratorItem,
    item: &WorkItem,
) -> Result<Option<ETag>> {
    let sent_at = Instant::now();
    let written = services.container().create_if_missing(&document).await;
    if let Ok(Some(written)) = written {
        let etag = written.etag.clone();
        let message = Message::written(document, item.clone(), written.etag, sent_at);
        if let Some(message) = message {
            services.instances().note_message(message);
        }
        return Ok(Some(etag));
    }
    // An earlier attempt stored the message, or it may be stored.
    let (execution, due_at) = (document.execution_id, document.due_at());
    services
        .instances()
        .recheck(target_instance(item), execution, due_at);
    written?;
    Ok(None)
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
    let fenced = execute_fenced_batch(services.container(), &batch, &document.key()).await?;
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
