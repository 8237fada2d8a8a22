//! Takes the lock of an instance: one conditional write, which also counts the attempt.
//!
//! A turn whose messages are reserved for this process begins without that write, because no other
//! runtime looks at them yet. Its commit is conditional on the version that was read, as any
//! commit. The lock is stored when the turn takes longer than the reservation.

use std::time::Duration;

use cdb_model::{Batch, Document, DocumentKey, ETag, Patch, Stored, Timestamp};
use tokio_util::sync::CancellationToken;

use super::loaded::Loaded;
use crate::error::{Error, Result};
use crate::queue::instances::lock::{lock_patch, locked};
use crate::queue::instances::{Message, RejectedCommit, Turn, TurnInstance};
use crate::queue::local_queue::Caller;
use crate::stored::Store;
use crate::stored::documents::{Durable, Instance, InstanceKey, OrchestratorItem};

/// Locks the instance conditionally on its loaded version. Returns the turn, for a caller without a
/// long poll; `None` when another runtime was faster.
pub(crate) async fn lock(
    store: &Store,
    loaded: Loaded,
    token: String,
    timeout: Duration,
) -> Result<Option<Turn>> {
    let older = loaded.instance.clone();
    let mut turn = begin(store, loaded, token, timeout)?;
    let moved = older.filter(|stored| stored.id != turn.instance.id);
    let (seen, locked) = (turn.instance.stored(), &turn.instance.document);
    let written = match &moved {
        Some(older) => {
            let moved = migrate(store, older, locked).await?;
            confirm(store, moved, locked, &turn.token).await
        }
        None => write(store, seen.as_ref(), locked, &turn.token).await,
    };
    turn.instance.version = written?;
    Ok(turn.instance.version.is_some().then_some(turn))
}

/// Begins a turn without a stored lock. All its messages are reserved for this process until
/// `until`.
pub(crate) fn reserve(
    store: &Store,
    loaded: Loaded,
    token: String,
    timeout: Duration,
    until: Timestamp,
) -> Result<Turn> {
    let turn = begin(store, loaded, token, timeout)?;
    Ok(Turn {
        reserved_until: Some(until),
        ..turn
    })
}

/// Returns the turn of a loaded instance, before its lock is written.
fn begin(store: &Store, loaded: Loaded, token: String, timeout: Duration) -> Result<Turn> {
    let now = store.now();
    let history_documents = loaded.history_documents();
    let history = loaded.history();
    let damaged = |_| RejectedCommit::of_damaged(&loaded.readable_events(), &loaded.messages);
    let rejected = history.as_ref().err().and_then(damaged);
    let version = loaded.instance.as_ref().map(|stored| stored.etag.clone());
    let new_instance = || Instance {
        history_documents: Some(history_documents),
        parent_instance_id: loaded.parent,
        ..Instance::pending(&loaded.instance_id, now)
    };
    let instance = loaded.instance.map(|stored| stored.document);
    let instance = instance.unwrap_or_else(new_instance);
    let messages = loaded.messages.iter();
    let messages = messages.map(|message| (message.id(), &message.stored.document));
    Ok(Turn {
        instance: TurnInstance {
            id: InstanceKey::new(&*loaded.instance_id).to_id()?,
            document: locked(instance, messages, &token, now, timeout),
            version,
        },
        token,
        reserved_until: None,
        rejected,
        messages: loaded.messages,
        left: loaded.left,
        lock_time: timeout,
        uncounted: None,
        waits: CancellationToken::new(),
        kv: loaded.kv,
        history,
        caller: Caller::Single,
        ended: false,
    })
}

/// Writes a lock on the version that was read, or creates the locked instance. Returns the new
/// version; `None` when another runtime was faster.
pub(crate) async fn write(
    store: &Store,
    seen: Option<&Stored<Instance>>,
    locked: &Instance,
    token: &str,
) -> Result<Option<ETag>, cdb_client::Error> {
    let container = &store.container;
    if let Some(seen) = seen {
        return cdb_coordination::lease::lock(container, seen, &lock_patch(locked), token).await;
    }
    let created = container.run(locked.create()).await;
    confirm(store, created.map(|new| new.etag), locked, token).await
}

/// Creates the locked instance of a turn that has begun without a lock, if its first message still
/// exists: a deletion may have removed it, and leaves no instance. Returns the version of the instance;
/// `None` when the turn is lost.
pub(super) async fn create(
    store: &Store,
    locked: &Instance,
    first: &mut Message,
    token: &str,
) -> Result<Option<ETag>> {
    let mut batch = Batch::<Durable>::new(&*locked.instance_id);
    let created = batch.add(locked.create())?;
    // The lock follows the reservation.
    let shared = Patch::<OrchestratorItem>::new().set(OrchestratorItem::RESERVED, false);
    let shared = shared.set(OrchestratorItem::VISIBLE_AT, first.stored.document.due_at());
    let message = batch.add(shared.at(&first.stored))?;
    let (version, seen) = match store.container.execute(&batch).await {
        Ok(outcome) => (
            outcome.etag(created).cloned(),
            outcome.etag(message).cloned(),
        ),
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => (confirm(store, Err(error), locked, token).await?, None),
    };
    if version.is_none() {
        return Ok(None);
    }
    let latest = store.container.latest_committed();
    match seen {
        Some(etag) => first.stored.etag = etag,
        None => match latest.read(&first.stored).await? {
            Some(stored) => first.stored = stored,
            None => return Ok(None),
        },
    }
    first.stored.document.visible_at = first.stored.document.due_at();
    first.stored.document.reserved = false;
    Ok(version)
}

/// Returns the version that a write of the lock left. Reads it after a lost answer.
async fn confirm(
    store: &Store,
    written: Result<ETag, cdb_client::Error>,
    locked: &Instance,
    token: &str,
) -> Result<Option<ETag>, cdb_client::Error> {
    let (latest, key) = (store.container.latest_committed(), locked.key());
    cdb_coordination::lease::confirm_lock(written, token, latest.read(&key)).await
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
        .add(stored.delete())
        .and_then(|_| batch.add(locked.create()))?;
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
