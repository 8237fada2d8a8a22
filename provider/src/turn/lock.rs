//! The lock of an instance: one conditional write, which also records the attempt.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_client::Error;
use cdb_model::{Batch, DocumentKey, ETag, ItemId, Patch, Stored, Timestamp};
use duroxide::providers::ProviderError;

use super::load::Loaded;
use super::mail::Message;
use crate::documents::{Durable, Instance, InstanceKey, OrchestratorItem};
use crate::error::{provider_error, unreadable};
use crate::history;
use crate::provider::Inner;

const FETCH: &str = "fetch_orchestration_item";

/// The instance as it is while somebody works on these messages.
pub(super) fn locked<'a>(
    mut instance: Instance,
    token: &str,
    (now, until): (Timestamp, Timestamp),
    messages: impl IntoIterator<Item = (&'a ItemId, &'a OrchestratorItem)>,
) -> Instance {
    instance.lock_token = Some(token.to_owned());
    instance.locked_until = Some(until);
    instance.updated_at = now;
    for (id, message) in messages {
        *instance
            .attempts
            .entry(id.as_str().to_owned())
            .or_insert(message.attempt_count) += 1;
    }
    instance
}

/// The attempts of an instance without the one that its lock has counted for these messages.
pub(super) fn uncounted(instance: &Instance, messages: &[Message]) -> BTreeMap<String, u32> {
    let mut attempts = instance.attempts.clone();
    for message in messages {
        let id = message.id().as_str();
        let before = message.stored.document.attempt_count;
        match attempts.get_mut(id) {
            Some(count) if *count > before + 1 => *count -= 1,
            // Its first one. A message that is gone would be counted for ever.
            Some(_) => {
                attempts.remove(id);
            }
            None => {}
        }
    }
    attempts
}

/// What changes in an instance that exists when it is locked.
pub(super) fn lock_patch(locked: &Instance) -> Patch<Instance> {
    Patch::<Instance>::new()
        .set(Instance::LOCK_TOKEN, locked.lock_token.clone())
        .set(Instance::LOCKED_UNTIL, locked.locked_until)
        .set(Instance::UPDATED_AT, locked.updated_at)
        .set(Instance::ATTEMPTS, locked.attempts.clone())
}

/// Locks the instance as it was loaded. `None` when somebody was faster.
pub(super) async fn lock(
    inner: &Inner,
    loaded: &Loaded,
    token: &str,
    timeout: Duration,
) -> Result<Option<Stored<Instance>>, ProviderError> {
    let now = inner.container.now();
    let instance = match &loaded.instance {
        Some(stored) => stored.document.clone(),
        None => Instance {
            history_documents: Some(loaded.history_documents()),
            ..Instance::pending(&loaded.instance_id, now)
        },
    };
    let messages = loaded.messages.iter();
    let messages = messages.map(|message| (message.id(), &message.stored.document));
    let instance = locked(instance, token, (now, now + timeout), messages);
    let written = match &loaded.instance {
        None => inner
            .container
            .create(&instance)
            .await
            .map(|written| Some(written.etag)),
        Some(stored) => relock(inner, stored, &instance).await?,
    };
    let etag = match written {
        Ok(etag) => etag,
        Err(error) => settle(inner, &loaded.instance_id, token, error).await?,
    };
    let id = InstanceKey::new(&*loaded.instance_id)
        .to_id()
        .map_err(|error| unreadable(FETCH, error))?;
    Ok(etag.map(|etag| Stored {
        id,
        document: instance,
        etag,
        timestamp: now,
    }))
}

/// Locks an instance that exists. One of `duroxide-cdb` moves to our id on the way, where ids differ.
async fn relock(
    inner: &Inner,
    stored: &Stored<Instance>,
    locked: &Instance,
) -> Result<Result<Option<ETag>, Error>, ProviderError> {
    let key = InstanceKey::new(&*locked.instance_id);
    let id = key.to_id().map_err(|error| unreadable(FETCH, error))?;
    if stored.id == id {
        return Ok(inner
            .container
            .patch_if_match(&key, &lock_patch(locked), &stored.etag)
            .await
            .map(|written| Some(written.etag)));
    }
    let mut batch = Batch::<Durable>::new(&*locked.instance_id);
    batch
        .delete_stored(stored)
        .map_err(|error| unreadable(FETCH, error))?;
    let created = batch
        .create(locked)
        .map_err(|error| unreadable(FETCH, error))?;
    Ok(inner
        .container
        .execute(&batch)
        .await
        .map(|outcome| outcome.etag(created).cloned()))
}

/// What a failed lock means: `Some` when it took place all the same, `None` when somebody else was faster.
async fn settle(
    inner: &Inner,
    instance_id: &str,
    token: &str,
    error: Error,
) -> Result<Option<ETag>, ProviderError> {
    if error.is_ambiguous() {
        let found = history::read_instance(&inner.container, FETCH, instance_id).await?;
        return Ok(found
            .filter(|stored| stored.document.lock_token.as_deref() == Some(token))
            .map(|stored| stored.etag));
    }
    if error.is_conflict() || error.is_precondition_failed() || error.is_not_found() {
        return Ok(None);
    }
    Err(provider_error(FETCH, &error))
}
