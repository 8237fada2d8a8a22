//! Converts a locked turn to duroxide's item: reads chunks, and reports documents that cannot be
//! decoded.

use std::collections::HashMap;
use std::pin::pin;

use duroxide::providers::{OrchestrationItem, WorkItem};
use duroxide::{Event, EventKind};
use tokio::time::Instant;

use super::renew;
use crate::error::{Error, Result};
use crate::queue::Services;
use crate::queue::instances::{Content, Instances, Message, Turn, release};
use crate::queue::local_queue::Guard;
use crate::stored::Store;
use crate::stored::documents::Instance;
use crate::stored::history::UNKNOWN_VERSION;
use crate::stored::spill::{self, ReadUnderLock};
use crate::timing::{LOCKED_BACKOFF, UNREADABLE_BACKOFF};

/// The result of a fetch: the item, its lock token, the attempt.
pub(super) type Fetched = (OrchestrationItem, String, u32);

/// Registers a locked turn, and hands it to a dispatcher. Returns `None` when the lock was lost
/// or has expired, or when a payload key is unavailable.
///
/// # Errors
/// Fails when the chunks of its messages cannot be read. The lock is then released.
pub(super) async fn begin(
    services: &Services,
    guard: Guard<'_, Instances>,
    mut turn: Turn,
) -> Result<Option<Fetched>> {
    let search = Instant::now().into_std();
    // The request for the lock was slow. The runtime expects its full time.
    let is_old = turn.lasts_less_than(services.store.now(), turn.lock_time / 4 * 3);
    if is_old {
        guard.locking(&turn.token, turn.lock_time);
        let renewal = renew::extend(services, &mut turn);
        match services.attempt(&guard.claim.key, renewal).await {
            Ok(Ok(false)) => {
                guard.release(|known| known.search(search));
                return Ok(None);
            }
            Ok(_) => {}
            Err(backoff) => {
                guard.unanswered(backoff, |known| known.search(search));
                return Ok(None);
            }
        }
    }
    services.instances().merge_late(&mut turn);
    let item = match readable(services, &guard, &mut turn).await {
        Ok(item) => item,
        Err(Error::LockLost(_)) => {
            guard.back_off(LOCKED_BACKOFF, |known| known.search(search));
            return Ok(None);
        }
        Err(Error::KeyUnavailable(reason)) => {
            tracing::warn!(instance = %guard.claim.key, reason, "cannot process an instance yet");
            release::unlock(&services.store, &turn).await;
            let newest = services.store.now();
            let instances = services.instances();
            instances.back_off_unfit(guard, newest, None, |_| {});
            return Ok(None);
        }
        Err(error) => {
            tracing::warn!(instance = %turn.instance.document.instance_id, %error, "cannot read a turn");
            release::unlock(&services.store, &turn).await;
            guard.back_off(UNREADABLE_BACKOFF, |known| known.search(search));
            return Err(error);
        }
    };
    if let Err(reason) = &turn.history {
        tracing::error!(instance = %turn.instance.document.instance_id, %reason, "cannot decode an instance");
    }
    let fetched = (item, turn.token.clone(), turn.attempt_count());
    let (token, reserved_until) = (turn.token.clone(), turn.reserved_until);
    match services.instances().hand_out(guard, turn) {
        None => {
            if let Some(until) = reserved_until {
                services.spawn(|services| renew::lock_in_time(services, token, until));
            }
            Ok(Some(fetched))
        }
        Some(expired) => {
            release::unlock(&services.store, &expired).await;
            Ok(None)
        }
    }
}

/// Returns duroxide's item of a turn with decoded payloads. A damaged turn also becomes an item:
/// the lock is held, so the fetch succeeds; the runtime counts the attempt, and after the last
/// attempt fails the orchestration (provider guide, "History Deserialization Contract").
async fn readable(
    services: &Services,
    guard: &Guard<'_, Instances>,
    turn: &mut Turn,
) -> Result<OrchestrationItem> {
    let store = &services.store;
    let mut messages = std::mem::take(&mut turn.messages);
    let read = {
        let read = pin!(read_messages(store, &mut messages));
        let mut reading = ReadUnderLock::new(turn.lock_time, read);
        loop {
            if let Some(read) = reading.next().await {
                break read;
            }
            renew_lock(services, guard, turn).await?;
        }
    };
    turn.messages = messages;
    match read {
        Err(Error::Damaged(reason)) => turn.damage(reason),
        read => read?,
    }
    let mut whole = item(turn);
    match store.payloads.decode_turn(&mut whole) {
        Ok(()) => Ok(whole),
        Err(Error::Damaged(reason)) => {
            turn.damage(reason);
            Ok(item(turn))
        }
        Err(error) => Err(error),
    }
}

/// Renews the lock while messages are read.
async fn renew_lock(
    services: &Services,
    guard: &Guard<'_, Instances>,
    turn: &mut Turn,
) -> Result<()> {
    guard.locking(&turn.token, turn.lock_time);
    match renew::extend(services, turn).await {
        Ok(false) => Err(Error::LockLost("another runtime took the instance")),
        // After an error, the commit detects the state of the lock.
        Ok(true) | Err(_) => Ok(()),
    }
}

/// Reads the messages that are stored in chunks. They cannot change, because only this turn can
/// consume them.
async fn read_messages(store: &Store, messages: &mut [Message]) -> Result<()> {
    for message in messages {
        match &message.content {
            Content::Whole(_) => {}
            Content::Unreadable(reason) => return Err(Error::Damaged(reason.clone())),
            Content::Header(_) => {
                let text = message.stored.document.work_item.clone();
                let text = spill::read(&store.container, text).await?;
                let item = serde_json::from_str(&text).map_err(|error| {
                    Error::Damaged(format!("message `{}`: {error}", message.id()))
                })?;
                message.content = Content::Whole(item);
            }
        }
    }
    Ok(())
}

/// Returns duroxide's item of a turn.
fn item(turn: &Turn) -> OrchestrationItem {
    let (history, history_error) = match &turn.history {
        Ok(history) => (Vec::clone(&history.events), None),
        Err(reason) => (Vec::new(), Some(reason.clone())),
    };
    let instance = &turn.instance.document;
    let (name, version) = identity(instance, &history, &turn.messages);
    OrchestrationItem {
        instance: instance.instance_id.clone(),
        orchestration_name: name,
        execution_id: instance.current_execution_id,
        version: version.unwrap_or_else(|| UNKNOWN_VERSION.to_owned()),
        history,
        messages: turn
            .messages
            .iter()
            .filter_map(|message| message.content.item().cloned())
            .collect(),
        kv_snapshot: if history_error.is_some() {
            HashMap::new()
        } else {
            turn.kv.snapshot()
        },
        history_error,
    }
}

/// Returns the orchestration of a turn, and its version if it is known.
pub(super) fn identity(
    instance: &Instance,
    history: &[Event],
    messages: &[Message],
) -> (String, Option<String>) {
    if instance.is_created() {
        return (
            instance.orchestration_name.clone(),
            instance.orchestration_version.clone(),
        );
    }
    for event in history {
        if let EventKind::OrchestrationStarted { name, version, .. } = &event.kind {
            return (name.clone(), Some(version.clone()));
        }
    }
    for message in messages {
        if let Some(
            WorkItem::StartOrchestration {
                orchestration,
                version,
                ..
            }
            | WorkItem::ContinueAsNew {
                orchestration,
                version,
                ..
            },
        ) = message.content.item()
        {
            return (orchestration.clone(), version.clone());
        }
    }
    (String::new(), None)
}
