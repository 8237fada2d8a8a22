//! The lock of an instance: one conditional write, which also records the attempt.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_client::Error;
use cdb_model::{Batch, DocumentKey, ETag, Patch, Stored};
use duroxide::providers::ProviderError;

use super::load::Loaded;
use crate::documents::{Durable, Instance, InstanceKey, OrchestratorItem};
use crate::error::{provider_error, unreadable};
use crate::history;
use crate::provider::Inner;

const FETCH: &str = "fetch_orchestration_item";

/// A lock that was won.
#[derive(Debug)]
pub(super) struct Locked {
    pub(super) token: String,
    pub(super) instance: Stored<Instance>,
    /// The highest count among the turn's messages.
    pub(super) attempt_count: u32,
}

/// Locks the instance as it was loaded. `None` when somebody was faster.
pub(super) async fn lock(
    inner: &Inner,
    loaded: &Loaded,
    instance_id: &str,
    timeout: Duration,
) -> Result<Option<Locked>, ProviderError> {
    let token = uuid::Uuid::new_v4().to_string();
    let now = inner.container.now();
    let mut instance = match &loaded.instance {
        Some(stored) => stored.document.clone(),
        None => Instance {
            history_documents: Some(loaded.history_documents()),
            ..Instance::pending(instance_id, now)
        },
    };
    instance.lock_token = Some(token.clone());
    instance.locked_until = Some(now + timeout);
    instance.updated_at = now;
    let attempt_count = count_attempts(&mut instance.attempts, &loaded.messages);

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
        Err(error) => settle(inner, instance_id, &token, error).await?,
    };
    let Some(etag) = etag else { return Ok(None) };
    let id = InstanceKey::new(instance_id)
        .to_id()
        .map_err(|error| unreadable(FETCH, error))?;
    Ok(Some(Locked {
        token,
        instance: Stored {
            id,
            document: instance,
            etag,
            timestamp: now,
        },
        attempt_count,
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
        let patch = Patch::<Instance>::new()
            .set(Instance::LOCK_TOKEN, locked.lock_token.clone())
            .set(Instance::LOCKED_UNTIL, locked.locked_until)
            .set(Instance::UPDATED_AT, locked.updated_at)
            .set(Instance::ATTEMPTS, locked.attempts.clone());
        return Ok(inner
            .container
            .patch_if_match(&key, &patch, &stored.etag)
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

/// Counts this fetch for every message and returns the highest count.
fn count_attempts(
    attempts: &mut BTreeMap<String, u32>,
    messages: &[Stored<OrchestratorItem>],
) -> u32 {
    let mut highest = 0;
    for message in messages {
        let count = attempts
            .entry(message.id.as_str().to_owned())
            .or_insert(message.document.attempt_count);
        *count += 1;
        highest = highest.max(*count);
    }
    highest
}
