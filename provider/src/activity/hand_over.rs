//! Hands a completion over to a turn of this process, whose commit ends the activity.

use duroxide::providers::WorkItem;
use metrics::counter;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::end::message;
use crate::error::Result;
use crate::queue::Services;
use crate::queue::activities::lock::fresh_until;
use crate::queue::activities::{Activities, EffectsState, WorkLock};
use crate::queue::hand_over::{Answer, HandOver, Storing, Ticket};
use crate::queue::instances::Message;
use crate::queue::is_yielding;
use crate::queue::local_queue::{Shared, Takers};
use crate::stored::documents::{Chunked, target_instance};
use crate::timing::HAND_OVER;

/// How the completion of an activity goes on.
pub(super) enum HandedOver {
    /// A committed turn has consumed it, and has ended the activity.
    Consumed,
    /// It must be stored; with the right to, if it was handed over.
    Store(Option<Storing>),
}

/// Waits until a turn has consumed a completion, if one of this process will take it soon. `stalled` is
/// cancelled if the commit of that turn goes on without its dispatcher.
///
/// # Errors
/// Fails when the completion cannot be encoded.
pub(super) async fn hand_over(
    services: &Services,
    shared: &Shared<Activities>,
    completion: &WorkItem,
    stalled: CancellationToken,
) -> Result<HandedOver> {
    let budget = &services.queues.hand_over;
    if budget.is_off() {
        return Ok(HandedOver::Store(None));
    }
    let instances = services.instances();
    let is_taken = {
        let lock = shared.lock().await;
        takers(services, &lock, completion)
            .and_then(|takers| instances.next_turn(&lock.item.document, budget, takers))
            .is_some()
    };
    if !is_taken || !is_current(services, shared).await {
        return Ok(HandedOver::Store(None));
    }
    let lock = shared.lock().await;
    let Some(takers) = takers(services, &lock, completion) else {
        return Ok(HandedOver::Store(None));
    };
    let (over, ticket) = HandOver::of_activity(shared, stalled);
    let Some(message) = unstored(services, &lock, completion, ticket)? else {
        return Ok(HandedOver::Store(None));
    };
    let next = instances.hand_over(message, &lock.item.document, budget, takers);
    let Some(next) = next else {
        return Ok(HandedOver::Store(None));
    };
    drop(lock);
    match over.answer(next.within).await {
        Answer::Consumed => {
            counter!("cdb.provider.completions.handed_over", "result" => "consumed").increment(1);
            let item = shared.lock().await.item.document.clone();
            services.queues.sessions.touch(&item).await;
            Ok(HandedOver::Consumed)
        }
        Answer::Store(storing) => {
            counter!("cdb.provider.completions.handed_over", "result" => "stored").increment(1);
            if storing.is_late {
                let now = tokio::time::Instant::now().into_std();
                budget.was_late(&next.orchestration, now);
            }
            Ok(HandedOver::Store(Some(storing)))
        }
    }
}

/// Returns whether the activity is as this process has left it. If it was locked a while ago, its instance
/// may be paused, deleted or taken over, and a turn would begin that cannot be committed. A read that is fast is
/// cheaper than a stored completion.
async fn is_current(services: &Services, shared: &Shared<Activities>) -> bool {
    let (item, fresh_until) = {
        let lock = shared.lock().await;
        let until = fresh_until(&services.store, lock.request.lock_timeout);
        (lock.item.clone(), until)
    };
    if item.document.locked_until > Some(fresh_until) {
        return true;
    }
    if !services.queues.hand_over.is_near() {
        return false;
    }
    let latest = services.container().latest_committed();
    let instance_id = &item.document.instance_id;
    let read = services.ledger.charge(instance_id, latest.read(&item));
    let read = timeout(HAND_OVER, read).await;
    matches!(read, Ok(Ok(Some(found))) if found.etag == item.etag)
}

/// Returns the dispatchers for which the completion may wait; `None` if it must be stored. Only a first attempt
/// is handed over: a turn that kills its process would otherwise never have its message stored.
fn takers(services: &Services, lock: &WorkLock, completion: &WorkItem) -> Option<Takers> {
    let item = &lock.item.document;
    let is_plain = lock.request.caller.is_runtime()
        && lock.effects == EffectsState::None
        && item.attempt_count <= 1
        && item.paused.is_none()
        && item.work_item.chunked().is_none()
        && target_instance(completion) == item.instance_id
        && lock.holds(services.store.now() + lock.request.lock_timeout / 4)
        && !is_yielding(services, &item.instance_id);
    let is_plain = is_plain && services.queues.hand_over.admits(item);
    is_plain
        .then(|| services.activities().may_wait_for(&item.instance_id))
        .flatten()
}

/// Returns the message of a completion; `None` if it is too large to be in one document.
fn unstored(
    services: &Services,
    lock: &WorkLock,
    completion: &WorkItem,
    ticket: Ticket,
) -> Result<Option<Message>> {
    let mut completion = completion.clone();
    services.store.payloads.encode_message(&mut completion)?;
    let now = services.store.now();
    let document = message(&lock.item.document, &completion, now, now)?.reserved(now);
    if !Chunked::fits(document.work_item.header()) {
        return Ok(None);
    }
    Ok(Message::unstored(document, completion, ticket))
}
