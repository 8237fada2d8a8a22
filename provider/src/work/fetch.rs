//! From a hint to a locked activity.

use std::sync::Arc;
use std::time::Duration;

use cdb_coordination::{Lockable, lock, settle};
use cdb_model::{Batch, ETag, Filter, ItemId, Query, Stored, Unreadable};
use duroxide::providers::{SessionFetchConfig, TagFilter, WorkItem};
use tokio::time::Instant;

use super::abandon::abandon;
use super::ahead::{lock_patch, locked};
use super::poison::set_aside;
use super::table::{Ask, WorkLock};
use crate::documents::{Durable, Salvage, WorkerItem, WorkerItemKey};
use crate::error::{Error, Result};
use crate::provider::Inner;
use crate::session::Claim as SessionClaim;
use crate::spill;
use crate::wait::{Candidate, Queue, Seen};

/// How long an activity is left alone that cannot be begun, and not for want of an answer.
const AVOID_UNFIT: Duration = Duration::from_secs(10);

/// An activity that may be free, as it was last seen.
#[derive(Clone, Debug)]
pub(crate) struct WorkerCandidate {
    pub(crate) item: Stored<WorkerItem>,
    /// Since when it is locked for whichever worker of this process takes it.
    pub(crate) handed_at: Option<Instant>,
    /// Found by a poll, as other runtimes find it too.
    pub(crate) polled: bool,
}

impl Candidate for WorkerCandidate {
    type Key = (String, ItemId);

    fn key(&self) -> Self::Key {
        (self.item.document.instance_id.clone(), self.item.id.clone())
    }

    fn is_polled(&self) -> bool {
        self.polled
    }
}

/// What a fetch gives to the runtime: the activity, its lock token, the attempt.
type Fetched = (WorkItem, String, u32);

/// What one worker asks for.
#[derive(Clone)]
struct Asked<'a> {
    lock_timeout: Duration,
    session: Option<&'a SessionFetchConfig>,
    tags: &'a TagFilter,
    /// It waits for work: a runtime's worker, not somebody who looks once.
    patient: Option<Arc<Ask>>,
}

/// Implements `Provider::fetch_work_item`.
pub(crate) async fn fetch(
    inner: &Inner,
    lock_timeout: Duration,
    patience: Duration,
    session: Option<&SessionFetchConfig>,
    tags: &TagFilter,
) -> Result<Option<Fetched>> {
    if matches!(tags, TagFilter::None) {
        return Ok(None);
    }
    let ask = || {
        Arc::new(Ask {
            lock_timeout,
            tags: tags.clone(),
        })
    };
    let asked = Asked {
        lock_timeout,
        session,
        tags,
        patient: (!patience.is_zero()).then(ask),
    };
    if let Some(ask) = &asked.patient {
        inner.work.note_ask(ask.clone());
    }
    let wanted = |candidate: &WorkerCandidate| {
        let item = &candidate.item.document;
        tags.matches(item.tag.as_deref())
            && inner
                .sessions
                .may_fetch(item, session, inner.container.now())
    };
    let mut waiter = inner.activities.wait(patience);
    while let Some(candidate) = waiter
        .next(
            wanted,
            || poll(inner, session.is_some(), tags),
            || poll_in_background(inner, &asked),
        )
        .await?
    {
        if let Some(fetched) = take(inner, candidate, &asked).await? {
            return Ok(Some(fetched));
        }
    }
    Ok(None)
}

/// Begins an activity that is locked for a worker of this process, or locks one that is free.
async fn take(
    inner: &Inner,
    candidate: WorkerCandidate,
    asked: &Asked<'_>,
) -> Result<Option<Fetched>> {
    let now = inner.container.now();
    let mut item = candidate.item;
    if candidate.handed_at.is_some() {
        let fresh = item.document.locked_until > Some(now + asked.lock_timeout / 4 * 3);
        if fresh {
            return begin(inner, item, asked).await;
        }
        // It is ours but has lain for too long: locked anew, and the attempt counted once.
        item.document.attempt_count = item.document.attempt_count.saturating_sub(1);
    } else if !item.document.is_lockable(now) {
        return Ok(None);
    }
    let Some(claim) = Claim::try_new(inner, &item, asked.lock_timeout) else {
        return Ok(None);
    };
    match attempt(inner, &item, asked).await {
        Ok(Some(fetched)) => {
            claim.keep();
            Ok(Some(fetched))
        }
        Ok(None) => Ok(None),
        Err(error) if error.is_retryable() => Err(error),
        // One activity must not keep its worker from all others.
        Err(error) => {
            tracing::error!(instance = %item.document.instance_id, id = %item.id, %error, "an activity cannot be begun");
            let until = inner.container.now() + AVOID_UNFIT;
            inner.work.avoid(&item, until);
            claim.keep();
            Ok(None)
        }
    }
}

/// Hands a locked activity to its worker. One that cannot be read is handed to nobody.
async fn begin(
    inner: &Inner,
    item: Stored<WorkerItem>,
    asked: &Asked<'_>,
) -> Result<Option<Fetched>> {
    let token = item.document.lock_token.clone().unwrap_or_default();
    let attempts = item.document.attempt_count;
    let text = item.document.work_item.clone();
    let id = item.id.clone();
    inner.work.insert(WorkLock {
        token: token.clone(),
        item,
        ask: asked.patient.clone(),
        begun_at: Instant::now(),
        unanswered: false,
        ended: false,
    });
    let reason = match spill::read(&inner.container, text).await {
        Ok(text) => match serde_json::from_str(&text) {
            Ok(work_item @ WorkItem::ActivityExecute { .. }) => {
                return Ok(Some((work_item, token, attempts)));
            }
            Ok(_) => format!("item `{id}` of the worker queue is no activity"),
            Err(error) => format!("activity `{id}` cannot be read: {error}"),
        },
        Err(Error::Damaged(reason)) => format!("activity `{id}` cannot be read: {reason}"),
        Err(error) => {
            abandon(inner, &token, None, true).await?;
            return Err(error);
        }
    };
    set_aside(inner, &token, attempts, reason).await?;
    Ok(None)
}

/// A poll that no worker waits for: all of them see what it finds, and those at work are not kept.
fn poll_in_background(inner: &Inner, asked: &Asked<'_>) {
    if inner.background.is_closing() {
        return;
    }
    let (sessions, tags) = (asked.session.is_some(), asked.tags.clone());
    inner.spawn(|inner| async move {
        let polling = inner.activities.polling();
        let poll = poll(&inner, sessions, &tags);
        match inner
            .watch
            .unless_quiet(&inner, polling.interval(), poll)
            .await
        {
            Ok(found) => polling.finish(found),
            Err(error) => tracing::warn!(%error, "the worker queue cannot be polled"),
        }
    });
}

/// Asks every physical partition for its first free activities that this worker may run.
async fn poll(inner: &Inner, sessions: bool, tags: &TagFilter) -> Result<Vec<WorkerCandidate>> {
    let reach = inner.share.of_poll(Queue::Activities).await;
    if reach.is_nothing() {
        return Ok(Vec::new());
    }
    let (visible_at, slot) = (WorkerItem::VISIBLE_AT, WorkerItem::DISPATCH_SLOT);
    let depth = &inner.depths.activities;
    let look = depth.look(inner.activity_prefetch);
    let mut free = reach.due(visible_at, slot, (look.from, inner.container.now()));
    if let Some(tags) = tagged(tags) {
        free = free & tags;
    }
    if !sessions {
        free = free
            & absent(
                WorkerItem::SESSION_ID.is_null(),
                WorkerItem::SESSION_ID.is_defined(),
            );
    }
    let query = Query::<WorkerItem>::across_partitions()
        .filter(free)
        .order_by(WorkerItem::BY_DUE.asc())
        .top(look.rows);
    let rows = inner.container.query(query).row_by_row().all().await?;
    let mut seen = Seen::of(&rows, WorkerItem::VISIBLE_AT, |item| item.visible_at);
    let found: Vec<WorkerCandidate> = rows
        .into_iter()
        .filter_map(|row| found(inner, row))
        .collect();
    seen.in_vain = seen.rows - found.len();
    depth.note(look, seen);
    Ok(found)
}

/// What a poll makes of one free activity. One that cannot be read is failed by whoever locks it.
fn found(inner: &Inner, row: Result<Stored<WorkerItem>, Unreadable>) -> Option<WorkerCandidate> {
    let salvaged = row.or_else(|found| {
        inner.damage.tell(&found);
        // Nobody's: it stays where it is, and is looked past.
        WorkerItem::salvage_stored(&found).ok_or(())
    });
    let item = salvaged.ok()?;
    if inner.work.is_busy(&item, inner.container.now()) {
        return None;
    }
    Some(WorkerCandidate {
        item,
        handed_at: None,
        polled: true,
    })
}

/// Which tags to ask for; nothing when any will do.
fn tagged(tags: &TagFilter) -> Option<Filter<WorkerItem>> {
    let untagged = || absent(WorkerItem::TAG.is_null(), WorkerItem::TAG.is_defined());
    match tags {
        TagFilter::Any => None,
        TagFilter::None => Some(Filter::none()),
        TagFilter::DefaultOnly => Some(untagged()),
        TagFilter::Tags(tags) => Some(WorkerItem::TAG.is_in(tags.iter().cloned().map(Some))),
        TagFilter::DefaultAnd(tags) => {
            Some(untagged() | WorkerItem::TAG.is_in(tags.iter().cloned().map(Some)))
        }
    }
}

/// `duroxide-cdb` leaves out what is absent, we write null.
fn absent(is_null: Filter<WorkerItem>, is_defined: Filter<WorkerItem>) -> Filter<WorkerItem> {
    is_null | !is_defined
}

/// Locks the activity as it was last seen. `None` when somebody was faster, or holds its session.
async fn attempt(
    inner: &Inner,
    seen: &Stored<WorkerItem>,
    asked: &Asked<'_>,
) -> Result<Option<Fetched>> {
    let claim = match asked.session.filter(|_| seen.document.session_id.is_some()) {
        None => None,
        Some(config) => {
            let now = inner.container.now();
            match inner
                .sessions
                .claim(&inner.container, &seen.document, config, now)
                .await?
            {
                Some(claim) => Some(claim),
                None => return Ok(None),
            }
        }
    };
    let now = inner.container.now();
    let item = locked(seen.document.clone(), now, asked.lock_timeout);
    inner.work.try_lock(item.clone());
    let Some(etag) = write(inner, seen, &item, claim.as_ref()).await? else {
        inner.work.forget_try(&item);
        return Ok(None);
    };
    if let Some(claim) = &claim {
        inner.sessions.claimed(claim);
    }
    let item = Stored {
        id: seen.id.clone(),
        document: item,
        etag,
        timestamp: now,
    };
    begin(inner, item, asked).await
}

/// One conditional write: of the item, or of the item together with its session. `None` when somebody was faster.
async fn write(
    inner: &Inner,
    seen: &Stored<WorkerItem>,
    locked: &WorkerItem,
    session: Option<&SessionClaim>,
) -> Result<Option<ETag>> {
    let (container, patch) = (&inner.container, lock_patch(locked));
    let mark = locked.lock_mark().unwrap_or_default();
    let taken = match session {
        None => lock(container, seen, &patch, mark).await,
        Some(session) => {
            let mut batch = Batch::<Durable>::new(&*locked.instance_id);
            let operation = batch
                .patch_stored(seen, &patch)
                .and_then(|operation| session.add_to(&mut batch).map(|()| operation))?;
            match container.execute(&batch).await {
                Ok(outcome) => Ok(outcome.etag(operation).cloned()),
                Err(error) => {
                    let now = container.latest_committed();
                    settle(Err(error), mark, now.read_stored(seen)).await
                }
            }
        }
    };
    taken.map_err(Error::from)
}

/// The item as it is now.
pub(super) async fn read(inner: &Inner, item: &WorkerItem) -> Result<Option<Stored<WorkerItem>>> {
    let key = WorkerItemKey::new(&*item.instance_id, item.execution_id, item.activity_id);
    inner.container.read(&key).await.map_err(Error::from)
}

/// The right of one dispatcher to try an item. Given back on drop, unless the lock was won.
struct Claim<'a> {
    inner: &'a Inner,
    item: &'a Stored<WorkerItem>,
    kept: bool,
}

impl<'a> Claim<'a> {
    fn try_new(
        inner: &'a Inner,
        item: &'a Stored<WorkerItem>,
        lock_timeout: Duration,
    ) -> Option<Self> {
        let now = inner.container.now();
        inner
            .work
            .claim(item, now, now + lock_timeout)
            .then_some(Self {
                inner,
                item,
                kept: false,
            })
    }

    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.inner.work.release(self.item);
        }
    }
}
