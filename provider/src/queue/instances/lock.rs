//! The lock of an instance: its fields in the document, and the patches that change them.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_coordination::lease::Found;
use cdb_model::value::ItemId;
use cdb_model::{Patch, Timestamp};

use super::message::Message;
use super::turn::Turn;
use crate::error::Result;
use crate::stored::documents::{Durable, Instance, OrchestratorItem};
use crate::stored::history;

/// Returns the instance with a new lock, with an attempt counted for each message.
pub(crate) fn locked<'m>(
    mut instance: Instance,
    messages: impl IntoIterator<Item = (&'m ItemId, &'m OrchestratorItem)>,
    token: &str,
    now: Timestamp,
    timeout: Duration,
) -> Instance {
    instance.lock_token = Some(token.to_owned());
    instance.locked_until = Some(now + timeout);
    instance.updated_at = now;
    for (id, message) in messages {
        *instance
            .attempts
            .entry(id.as_str().to_owned())
            .or_insert(message.attempt_count) += 1;
    }
    instance
}

/// Returns the attempt counts of a turn's instance without the attempt of its lock.
pub(crate) fn attempts_before(turn: &Turn) -> BTreeMap<String, u32> {
    match &turn.uncounted {
        Some(attempts) => attempts.clone(),
        None => uncounted(&turn.instance.document, &turn.messages),
    }
}

/// Returns the attempt counts of an instance without one attempt for each of these messages.
fn uncounted(instance: &Instance, messages: &[Message]) -> BTreeMap<String, u32> {
    let mut attempts = instance.attempts.clone();
    for message in messages {
        let id = message.id().as_str();
        let before = message.stored.document.attempt_count;
        match attempts.get_mut(id) {
            Some(count) if *count > before + 1 => *count -= 1,
            // The first attempt. The count of a consumed message would stay forever.
            Some(_) => {
                attempts.remove(id);
            }
            None => {}
        }
    }
    attempts
}

/// Returns the attempt counts without that of a lock whose messages are not known.
pub(crate) fn one_less(attempts: &BTreeMap<String, u32>) -> BTreeMap<String, u32> {
    let counted = attempts.iter().filter(|(_, count)| **count > 1);
    counted.map(|(id, count)| (id.clone(), count - 1)).collect()
}

/// Removes the attempt counts of consumed messages.
pub(crate) fn remove_attempts(attempts: &mut BTreeMap<String, u32>, messages: &[Message]) {
    for message in messages {
        attempts.remove(message.id().as_str());
    }
}

/// Returns the patch that releases the lock of an instance.
pub(crate) fn unlock_patch(attempts: BTreeMap<String, u32>, now: Timestamp) -> Patch<Instance> {
    Patch::<Instance>::new()
        .set(Instance::LOCK_TOKEN, None)
        .set(Instance::LOCKED_UNTIL, None)
        .set(Instance::UPDATED_AT, now)
        .set(Instance::ATTEMPTS, attempts)
}

/// Returns the patch that locks an existing instance.
pub(crate) fn lock_patch(locked: &Instance) -> Patch<Instance> {
    Patch::<Instance>::new()
        .set(Instance::LOCK_TOKEN, locked.lock_token.clone())
        .set(Instance::LOCKED_UNTIL, locked.locked_until)
        .set(Instance::UPDATED_AT, locked.updated_at)
        .set(Instance::ATTEMPTS, locked.attempts.clone())
}

/// Reads the instance and compares its version and tokens with the turn's. Adopts another version
/// if this turn holds the lock.
pub(crate) async fn find_out(latest: &ContainerClient<Durable>, turn: &mut Turn) -> Result<Found> {
    let instance_id = &turn.instance.document.instance_id;
    let found = history::read_instance(latest, instance_id).await?;
    let version = found.as_ref().map(|stored| &stored.etag);
    let is_unchanged = version == turn.instance.version.as_ref();
    let token = Some(turn.token.as_str());
    Ok(match found {
        Some(stored) if stored.document.commit_token.as_deref() == token => Found::Done,
        _ if is_unchanged => Found::Unchanged,
        Some(stored) if stored.document.lock_token.as_deref() == token => {
            turn.instance.version = Some(stored.etag);
            turn.reserved_until = None;
            Found::NewVersion
        }
        _ => Found::Lost,
    })
}
