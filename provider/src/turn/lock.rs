//! The lock of an instance: one conditional write, which also counts the attempt.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_coordination::Found;
use cdb_model::{Batch, DocumentKey, ETag, ItemId, Patch, Stored, Timestamp};

use super::load::Loaded;
use crate::documents::{Durable, Instance, InstanceKey, OrchestratorItem};
use crate::error::{Error, Result};
use crate::history;
use crate::instances::{Message, Turn};
use crate::store::Store;

/// The fields of a lock to be taken.
pub(crate) struct NewLock<'a> {
    token: &'a str,
    now: Timestamp,
    until: Timestamp,
}

impl<'a> NewLock<'a> {
    pub(crate) fn new(token: &'a str, now: Timestamp, timeout: Duration) -> Self {
        Self {
            token,
            now,
            until: now + timeout,
        }
    }

    /// Returns the instance with this lock, with an attempt counted for each message.
    pub(crate) fn of<'m>(
        &self,
        mut instance: Instance,
        messages: impl IntoIterator<Item = (&'m ItemId, &'m OrchestratorItem)>,
    ) -> Instance {
        instance.lock_token = Some(self.token.to_owned());
        instance.locked_until = Some(self.until);
        instance.updated_at = self.now;
        for (id, message) in messages {
            *instance
                .attempts
                .entry(id.as_str().to_owned())
                .or_insert(message.attempt_count) += 1;
        }
        instance
    }
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

/// Locks the instance conditionally on its loaded version. Returns `None` when another runtime was
/// faster.
pub(crate) async fn lock(
    store: &Store,
    loaded: &Loaded,
    token: &str,
    timeout: Duration,
) -> Result<Option<Stored<Instance>>> {
    let now = store.now();
    let instance = match &loaded.instance {
        Some(stored) => stored.document.clone(),
        None => Instance {
            history_documents: Some(loaded.history_documents()),
            ..Instance::pending(&loaded.instance_id, now)
        },
    };
    let messages = loaded.messages.iter();
    let messages = messages.map(|message| (message.id(), &message.stored.document));
    let instance = NewLock::new(token, now, timeout).of(instance, messages);
    let key = InstanceKey::new(&*loaded.instance_id);
    let id = key.to_id()?;
    let container = &store.container;
    let written = match &loaded.instance {
        Some(stored) if stored.id == id => {
            cdb_coordination::lock(container, stored, &lock_patch(&instance), token).await
        }
        older => {
            let moved = match older {
                None => container.create(&instance).await.map(|new| new.etag),
                Some(stored) => migrate(store, stored, &instance).await?,
            };
            let now = container.latest_committed();
            cdb_coordination::confirm_lock(moved, token, now.read(&key)).await
        }
    };
    Ok(written?.map(|etag| Stored {
        id,
        document: instance,
        etag,
        timestamp: now,
    }))
}

/// Locks an instance of `duroxide-cdb` with another id format, and moves it to the id of this
/// crate.
async fn migrate(
    store: &Store,
    stored: &Stored<Instance>,
    locked: &Instance,
) -> Result<Result<ETag, cdb_client::Error>> {
    let mut batch = Batch::<Durable>::new(&*locked.instance_id);
    let created = batch
        .delete_stored(stored)
        .and_then(|_| batch.create(locked))?;
    match store.container.execute(&batch).await {
        Ok(outcome) => match outcome.etag(created) {
            Some(etag) => Ok(Ok(etag.clone())),
            None => Err(Error::Retryable(
                "the service returned no ETag for the created instance".to_owned(),
            )),
        },
        Err(error) => Ok(Err(error)),
    }
}

/// Reads the instance and compares its tokens with the turn's. Adopts the version if this turn
/// still holds the lock.
pub(crate) async fn find_out(latest: &ContainerClient<Durable>, turn: &mut Turn) -> Result<Found> {
    let instance_id = &turn.instance.document.instance_id;
    let Some(stored) = history::read_instance(latest, instance_id).await? else {
        return Ok(Found::Lost);
    };
    let token = Some(turn.token.as_str());
    if stored.document.commit_token.as_deref() == token {
        return Ok(Found::Done);
    }
    if stored.document.lock_token.as_deref() != token {
        return Ok(Found::Lost);
    }
    if stored.etag == turn.instance.etag {
        return Ok(Found::Unchanged);
    }
    turn.instance.etag = stored.etag;
    Ok(Found::Moved)
}
