//! The end of an activity: its item goes and its completion comes, in one batch.

use std::time::Duration;

use cdb_model::{Batch, BatchError, Timestamp};
use duroxide::providers::{ProviderError, WorkItem};

use super::fetch::read;
use super::table::WorkLock;
use crate::documents::{
    Durable, IntentItem, IntentQueue, OrchestratorItem, OutboxIntent, target_instance,
};
use crate::error::{lock_lost, provider_error, unreadable};
use crate::outbox;
use crate::provider::Inner;

const ACK: &str = "ack_work_item";

/// How often the batch is sent again while the lock is still ours.
const MAX_SENDS: u32 = 4;

/// What goes where with the end of an activity.
enum Completion {
    None,
    /// To the instance that scheduled it: the same partition.
    Own(Box<OrchestratorItem>),
    /// To another instance, by the outbox.
    Other(Box<OutboxIntent>),
}

/// Implements `Provider::ack_work_item`.
pub(crate) async fn ack(
    inner: &Inner,
    token: &str,
    completion: Option<WorkItem>,
) -> Result<(), ProviderError> {
    let shared = inner.work.get(ACK, token)?;
    let mut lock = shared.lock().await;
    let now = inner.container.now();
    if !lock.holds(now) {
        inner.work.remove(&mut lock);
        return Err(lock_lost(ACK, "it has expired"));
    }
    let completion = sort(&lock, completion.as_ref(), now)?;
    let result = send(inner, &mut lock, &completion).await;
    match &result {
        Err(error) if error.is_retryable() => return result,
        _ => inner.work.remove(&mut lock),
    }
    result?;
    let touched = inner
        .sessions
        .touch(&inner.container, &lock.item.document, now);
    match completion {
        Completion::None => {}
        Completion::Own(item) => {
            inner.hint_instance(&item.instance_id, item.execution_id, Duration::ZERO);
        }
        Completion::Other(intent) => outbox::deliver_all(inner, vec![*intent]).await,
    }
    touched.await;
    Ok(())
}

fn sort(
    lock: &WorkLock,
    completion: Option<&WorkItem>,
    now: Timestamp,
) -> Result<Completion, ProviderError> {
    let Some(completion) = completion else {
        return Ok(Completion::None);
    };
    let item = &lock.item.document;
    let failed = |error| unreadable(ACK, error);
    if target_instance(completion) == item.instance_id {
        let cause = OrchestratorItem::completion_cause(item.execution_id, item.activity_id);
        let message = OrchestratorItem::new(completion, cause, now, now).map_err(failed)?;
        return Ok(Completion::Own(Box::new(message)));
    }
    Ok(Completion::Other(Box::new(OutboxIntent {
        instance_id: item.instance_id.clone(),
        idempotency_key: lock.token.clone(),
        target_instance_id: target_instance(completion).to_owned(),
        items: vec![IntentItem {
            queue: IntentQueue::Orchestrator,
            work_item: serde_json::to_string(completion).map_err(failed)?,
            visible_at: now,
        }],
        payload: None,
        created_at: now,
        attempt_count: 0,
    })))
}

/// Sends the batch until it is known to be committed or the lock is known to be lost.
async fn send(
    inner: &Inner,
    lock: &mut WorkLock,
    completion: &Completion,
) -> Result<(), ProviderError> {
    for _ in 0..MAX_SENDS {
        let batch = end(lock, completion).map_err(|error| unreadable(ACK, error))?;
        let Err(error) = inner.container.execute(&batch).await else {
            return Ok(());
        };
        if !error.is_ambiguous() {
            return Err(if error.is_not_found() || error.is_precondition_failed() {
                lock_lost(ACK, "the activity was cancelled, or another worker took it")
            } else {
                provider_error(ACK, &error)
            });
        }
        match read(inner, ACK, &lock.item).await? {
            Some(stored) if stored.document.lock_token.as_deref() == Some(&lock.token) => {
                lock.item.etag = stored.etag;
            }
            Some(_) => return Err(lock_lost(ACK, "another worker took the activity")),
            // The item went with our batch. Had it been cancelled instead, its completion would be of no use to anyone.
            None => return Ok(()),
        }
    }
    Err(ProviderError::retryable(ACK, "the service did not answer"))
}

fn end(lock: &WorkLock, completion: &Completion) -> Result<Batch<Durable>, BatchError> {
    let mut batch = Batch::new(&*lock.item.document.instance_id);
    // First, so that a lost lock shows up as this operation's 404 or 412.
    batch.delete_stored(&lock.item)?;
    match completion {
        Completion::None => {}
        Completion::Own(item) => {
            batch.create(&**item)?;
        }
        Completion::Other(intent) => {
            batch.create(&**intent)?;
        }
    }
    Ok(batch)
}
