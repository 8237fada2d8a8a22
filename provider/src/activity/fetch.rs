//! Locks a polled activity for a worker.

use std::pin::pin;
use std::time::Duration;

use cdb_client::Error as ClientError;
use cdb_coordination::lease::{Lockable, confirm_lock, lock};
use cdb_model::operation::OperationIndex;
use cdb_model::{Batch, ETag, Stored};
use duroxide::providers::{SessionFetchConfig, TagFilter, WorkItem};
use duroxide::{ErrorDetails, Event};

use super::ack::{abandon, abandon_locked};
use super::detached::ack;
use super::renew::renew;
use crate::error::{Error, Result};
use crate::queue::activities::lock::{
    fresh_until, lock_patch, locked, unlock_until, withhold_patch,
};
use crate::queue::activities::{Activities, KnownActivity, Scope, WorkLock, WorkerCapability};
use crate::queue::local_queue::{Caller, FetchRequest, Guard, Shared, Taken};
use crate::queue::poll::Fetch;
use crate::queue::session::Claim as SessionClaim;
use crate::queue::{Services, go_behind, note_begin};
use crate::stored::Store;
use crate::stored::documents::{Durable, WorkerItem};
use crate::stored::history;
use crate::stored::payload::Payloads;
use crate::stored::spill::{self, ReadUnderLock};
use crate::timing::{ACTIVITY_UNANSWERED, ACTIVITY_UNDECODABLE, ACTIVITY_UNFIT};

/// The result of a fetch: the activity, its lock token, the attempt.
type Fetched = (WorkItem, String, u32);

/// Implements `Provider::fetch_work_item`.
pub(crate) async fn fetch(
    services: &Services,
    lock_timeout: Duration,
    poll_timeout: Duration,
    session: Option<&SessionFetchConfig>,
    tags: &TagFilter,
) -> Result<Option<Fetched>> {
    if matches!(tags, TagFilter::None) {
        return Ok(None);
    }
    let request = FetchRequest {
        capability: WorkerCapability {
            tags: tags.clone(),
            session: session.cloned(),
            sessions: services.queues.sessions.clone(),
        },
        lock_timeout,
        caller: Caller::of(poll_timeout),
    };
    services.activities().note_fetch();
    if session.is_some() {
        services.activities().end_fetches_without_sessions();
    }
    let wanted = Scope::of(vec![request.capability.clone()]);
    let mut fetch = Fetch::<Activities>::start(services, request.clone(), poll_timeout, wanted);
    while let Some(taken) = fetch.next().await? {
        let fetched = match taken {
            Taken::Locked(guard, item) => begin_locked(services, guard, item, &request).await?,
            Taken::Free(guard, Some(item)) => try_lock(services, guard, item, &request).await?,
            Taken::Free(guard, None) => {
                guard.release(KnownActivity::forget);
                None
            }
        };
        if fetched.is_some() {
            return Ok(fetched);
        }
    }
    Ok(None)
}

/// Hands out an activity that is prelocked for a worker of this process.
async fn begin_locked(
    services: &Services,
    guard: Guard<'_, Activities>,
    mut item: Stored<WorkerItem>,
    request: &FetchRequest<WorkerCapability>,
) -> Result<Option<Fetched>> {
    if item.document.locked_until > Some(fresh_until(&services.store, request.lock_timeout)) {
        note_begin(services, &item.document.instance_id);
        return begin(services, guard, item, request).await;
    }
    // The prelock is too old: it is locked again, and the attempt is counted once.
    item.document.attempt_count = item.document.attempt_count.saturating_sub(1);
    try_lock(services, guard, item, request).await
}

/// Locks a free activity and hands it out. The worker does not wait for a physical partition that
/// does not answer, because other partitions have work.
async fn try_lock(
    services: &Services,
    guard: Guard<'_, Activities>,
    item: Stored<WorkerItem>,
    request: &FetchRequest<WorkerCapability>,
) -> Result<Option<Fetched>> {
    let text = item.document.work_item.header();
    if let Some(reason) = services.store.payloads.missing_key(text) {
        tracing::warn!(id = %item.id, reason, "cannot run an activity yet");
        guard.back_off(ACTIVITY_UNFIT, KnownActivity::forget);
        return Ok(None);
    }
    let instance_id = &item.document.instance_id;
    if item.document.paused.is_some() {
        // It ran when its instance was paused, and its worker has not ended it.
        let patch = withhold_patch(&item.document);
        let withheld = services.container().run(patch.at(&item));
        match services.attempt(instance_id, withheld).await {
            Ok(Err(error)) if !error.is_precondition_failed() => {
                tracing::debug!(id = %item.id, %error, "an activity was not withheld");
                guard.back_off(ACTIVITY_UNANSWERED, KnownActivity::forget);
            }
            Ok(_) => guard.release(KnownActivity::forget),
            Err(backoff) => guard.unanswered(backoff, KnownActivity::forget),
        }
        return Ok(None);
    }
    let Some(guard) = go_behind(services, guard, instance_id, request.caller) else {
        return Ok(None);
    };
    let attempt = attempt(services, &guard, &item, request);
    let attempted = match services.attempt(instance_id, attempt).await {
        Ok(attempted) => attempted,
        Err(backoff) => {
            guard.unanswered(backoff, |_| {});
            return Ok(None);
        }
    };
    match attempted {
        Ok(Attempted::Locked(locked)) => begin(services, guard, locked, request).await,
        Ok(Attempted::Lost) => {
            guard.lost_race();
            guard.release(KnownActivity::forget);
            Ok(None)
        }
        // The next worker may own the session, or the session expires.
        Ok(Attempted::SessionHeld) => {
            guard.release(|_| {});
            Ok(None)
        }
        Err(error) if error.is_retryable() => {
            guard.unanswered(ACTIVITY_UNANSWERED, KnownActivity::forget);
            Err(error)
        }
        // One activity must not block its worker.
        Err(error) => {
            tracing::error!(instance = %item.document.instance_id, id = %item.id, %error, "cannot lock an activity");
            guard.back_off(ACTIVITY_UNFIT, KnownActivity::forget);
            Ok(None)
        }
    }
}

/// Hands a locked activity to its worker. An undecodable activity is retried or failed.
async fn begin(
    services: &Services,
    guard: Guard<'_, Activities>,
    item: Stored<WorkerItem>,
    request: &FetchRequest<WorkerCapability>,
) -> Result<Option<Fetched>> {
    let token = item.document.lock_token.clone().unwrap_or_default();
    let attempts = item.document.attempt_count;
    let instance_id = item.document.instance_id.clone();
    let text = item.document.work_item.clone();
    let id = item.id.clone();
    let lock = WorkLock::new(item, request.clone());
    if let Some(expired) = services.activities().hand_out(guard, lock) {
        let now = services.store.now();
        // Otherwise another worker has taken it, or counts one attempt more.
        if let Err(error) = unlock_until(&services.store, expired.item, now, false).await {
            tracing::debug!(%error, "an expired lock was not released");
        }
        return Ok(None);
    }
    let read = async {
        let text = spill::read(services.container(), text).await?;
        Ok((text, read_history(services, &instance_id, request).await))
    };
    let (text, history) = match read_under_lock(services, &token, request.lock_timeout, read).await
    {
        Ok((text, history)) => (Ok(text), history),
        Err(error) => (Err(error), None),
    };
    if text.is_ok() && !may_begin(services, &token, request).await {
        tracing::debug!(%id, "an activity is not handed out");
        return Ok(None);
    }
    match text.and_then(|text| decoded(&services.store.payloads, &text)) {
        Ok(work_item) => {
            if request.caller.is_runtime() {
                services.activities().expect_read(&instance_id, history);
            }
            return Ok(Some((work_item, token, attempts)));
        }
        Err(Error::Damaged(reason)) => {
            let reason = format!("activity `{id}` cannot be decoded: {reason}");
            retry_or_fail(services, &token, attempts, reason).await?;
        }
        Err(Error::KeyUnavailable(reason)) => {
            tracing::warn!(%id, reason, "cannot run an activity yet");
            abandon(services, &token, Some(ACTIVITY_UNFIT), true).await?;
        }
        Err(Error::LockLost(_)) => {}
        Err(error) => {
            abandon(services, &token, None, true).await?;
            return Err(error);
        }
    }
    Ok(None)
}

/// Reads the history that duroxide reads before it runs the activity, unless it is known. A slow
/// read must precede the last look at the activity.
async fn read_history(
    services: &Services,
    instance_id: &str,
    request: &FetchRequest<WorkerCapability>,
) -> Option<Vec<Event>> {
    if !request.caller.is_runtime() || services.instances().history(instance_id).is_some() {
        return None;
    }
    let guess = services.instances().newest_execution(instance_id);
    let read = history::read_latest(services.container(), instance_id, guess).await;
    // After an error duroxide reads again, and runs the activity in any case.
    read.inspect_err(|error| tracing::debug!(%error, "the history of an activity is not read"))
        .ok()
}

/// Returns whether a worker may begin the activity that it has locked. Renews a lock that is not
/// fresh, and gives back the activity of an instance that was paused since.
async fn may_begin(
    services: &Services,
    token: &str,
    request: &FetchRequest<WorkerCapability>,
) -> bool {
    let Ok(shared) = services.activities().local().running(token) else {
        return false;
    };
    let look = async || {
        let item = &shared.lock().await.item.document;
        (
            item.paused.is_some(),
            item.locked_until > Some(fresh_until(&services.store, request.lock_timeout)),
        )
    };
    let (mut is_paused, is_fresh) = look().await;
    if !is_paused && !is_fresh {
        let instance_id = shared.lock().await.item.document.instance_id.clone();
        let renewal = renew(services, token, request.lock_timeout);
        match services.attempt(&instance_id, renewal).await {
            Ok(Ok(())) => is_paused = look().await.0,
            Ok(Err(Error::LockLost(_))) => return false,
            // After another error, the end of the activity detects the state of the lock.
            Ok(Err(_)) => {}
            Err(_) => {
                give_back(services, token, shared);
                return false;
            }
        }
    }
    if is_paused && let Err(error) = abandon(services, token, None, true).await {
        tracing::debug!(%error, "the activity of a paused instance was not released; its lock expires");
    }
    !is_paused
}

/// Gives back a locked activity whose partition does not answer, without its worker.
fn give_back(services: &Services, token: &str, running: Shared<Activities>) {
    services.activities().local().detach(token);
    services.spawn(|services| async move {
        if let Err(error) = abandon_locked(&services, &running, Duration::ZERO, true).await {
            tracing::debug!(%error, "an activity was not released; its lock expires");
        }
    });
}

/// Decodes the text of an activity.
fn decoded(payloads: &Payloads, text: &str) -> Result<WorkItem> {
    let mut item = serde_json::from_str(text).map_err(|error| Error::Damaged(error.to_string()))?;
    if !matches!(item, WorkItem::ActivityExecute { .. }) {
        return Err(Error::Damaged("it is not an activity".to_owned()));
    }
    payloads.decode_message(&mut item)?;
    Ok(item)
}

/// Reads what belongs to a locked activity. Renews the lock until it is read.
async fn read_under_lock<T>(
    services: &Services,
    token: &str,
    lock_timeout: Duration,
    read: impl Future<Output = Result<T>>,
) -> Result<T> {
    let read = pin!(read);
    let mut reading = ReadUnderLock::new(lock_timeout, read);
    loop {
        if let Some(read) = reading.next().await {
            return read;
        }
        // After another error, the end of the activity detects the state of the lock.
        if let Err(lost @ Error::LockLost(_)) = renew(services, token, lock_timeout).await {
            return Err(lost);
        }
    }
}

/// The result of an attempt to lock an activity.
enum Attempted<T> {
    Locked(T),
    /// Another worker was faster.
    Lost,
    /// Another worker holds the activity's session, or claimed it at the same moment.
    SessionHeld,
}

/// Locks the activity conditionally on its last known version.
async fn attempt(
    services: &Services,
    guard: &Guard<'_, Activities>,
    seen: &Stored<WorkerItem>,
    request: &FetchRequest<WorkerCapability>,
) -> Result<Attempted<Stored<WorkerItem>>> {
    let config = request.capability.session.as_ref();
    let config = config.filter(|_| seen.document.session_id.is_some());
    let claim = match config {
        None => None,
        Some(config) => {
            let claim = services.queues.sessions.claim(&seen.document, config);
            match claim.await? {
                Some(claim) => Some(claim),
                None => return Ok(Attempted::SessionHeld),
            }
        }
    };
    let now = services.store.now();
    let store = &services.store;
    let activities = services.activities();
    let time = activities.lock_time(&guard.claim.key, request.lock_timeout);
    let item = locked(store, seen.document.clone(), now, time);
    guard.locking(item.lock_token.as_deref().unwrap_or_default(), time);
    if let Some(claim) = &claim {
        // Before the answer: a worker that does not wait for it may hold the session.
        services.queues.sessions.claimed(claim);
    }
    let etag = match write(store, seen, &item, claim.as_ref()).await? {
        Attempted::Locked(etag) => etag,
        Attempted::Lost => return Ok(Attempted::Lost),
        Attempted::SessionHeld => return Ok(Attempted::SessionHeld),
    };
    Ok(Attempted::Locked(Stored {
        id: seen.id.clone(),
        document: item,
        etag,
        timestamp: now,
    }))
}

/// Sends one conditional write: of the item, or of the item together with its session.
async fn write(
    store: &Store,
    seen: &Stored<WorkerItem>,
    locked: &WorkerItem,
    session: Option<&SessionClaim>,
) -> Result<Attempted<ETag>> {
    let (container, patch) = (&store.container, lock_patch(locked));
    let mark = locked.lock_mark().unwrap_or_default();
    let taken = match session {
        None => lock(container, seen, &patch, mark).await?,
        Some(session) => {
            let mut batch = Batch::<Durable>::new(&*locked.instance_id);
            let operation = batch.add(patch.at(seen))?;
            session.add_to(&mut batch)?;
            match container.execute(&batch).await {
                Ok(outcome) => outcome.etag(operation).cloned(),
                Err(error) if is_about_another(&error, operation) => {
                    return Ok(Attempted::SessionHeld);
                }
                Err(error) => {
                    let now = container.latest_committed();
                    confirm_lock(Err(error), mark, now.read(seen)).await?
                }
            }
        }
    };
    Ok(taken.map_or(Attempted::Lost, Attempted::Locked))
}

/// Returns whether another operation made the batch fail because its document has changed.
fn is_about_another(error: &ClientError, operation: OperationIndex) -> bool {
    let failed = error.operation_index();
    failed.is_some_and(|failed| failed != operation.get())
        && (error.is_conflict() || error.is_precondition_failed())
}

/// The most attempts. A runtime of a newer version, which may decode the activity, can take it in
/// between.
const MAX_ATTEMPTS: u32 = 10;

/// Abandons a locked activity with a delay, or fails it after the last attempt.
pub(super) async fn retry_or_fail(
    services: &Services,
    token: &str,
    attempts: u32,
    reason: String,
) -> Result<()> {
    tracing::error!(attempts, %reason, "an activity cannot be decoded");
    if attempts < MAX_ATTEMPTS {
        return abandon(services, token, Some(ACTIVITY_UNDECODABLE), false).await;
    }
    let shared = services.activities().local().running(token)?;
    let item = shared.lock().await.item.document.clone();
    // The document identifies the activity even when its text does not.
    let failed = WorkItem::ActivityFailed {
        instance: item.instance_id,
        execution_id: item.execution_id,
        id: item.activity_id,
        details: ErrorDetails::Infrastructure {
            operation: "fetch_work_item".to_owned(),
            message: reason,
            retryable: false,
        },
    };
    ack(services, token, Some(failed)).await
}
