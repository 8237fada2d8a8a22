//! Takes the lock of an instance: one conditional write, which also counts the attempt.

use std::time::Duration;

use cdb_model::{Batch, DocumentKey, ETag, Stored};

use super::load::Loaded;
use crate::error::{Error, Result};
use crate::queue::instances::lock::{lock_patch, locked};
use crate::queue::instances::{RejectedCommit, Turn};
use crate::queue::local_queue::Caller;
use crate::stored::Store;
use crate::stored::documents::{Durable, Instance, InstanceKey};

/// Locks the instance conditionally on its loaded version. Returns the turn, for a caller without a
/// long poll; `None` when another runtime was faster.
pub(crate) async fn lock(
    store: &Store,
    loaded: Loaded,
    token: String,
    timeout: Duration,
) -> Result<Option<Turn>> {
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
    let instance = locked(instance, messages, &token, now, timeout);
    let key = InstanceKey::new(&*loaded.instance_id);
    let id = key.to_id()?;
    let container = &store.container;
    let written = match &loaded.instance {
        Some(stored) if stored.id == id => {
            cdb_coordination::lock(container, stored, &lock_patch(&instance), &token).await
        }
        older => {
            let moved = match older {
                None => container.create(&instance).await.map(|new| new.etag),
                Some(stored) => migrate(store, stored, &instance).await?,
            };
            let now = container.latest_committed();
            cdb_coordination::confirm_lock(moved, &token, now.read(&key)).await
        }
    };
    let Some(etag) = written? else {
        return Ok(None);
    };
    let history = loaded.history();
    let damaged = |_| RejectedCommit::of_damaged(&loaded.readable_events(), &loaded.messages);
    Ok(Some(Turn {
        token,
        instance: Stored {
            id,
            document: instance,
            etag,
            timestamp: now,
        },
        rejected: history.as_ref().err().and_then(damaged),
        messages: loaded.messages,
        lock_time: timeout,
        uncounted: None,
        kv: loaded.kv,
        history,
        caller: Caller::Single,
        ended: false,
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
