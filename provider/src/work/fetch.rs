//! From a hint to a locked activity.

use std::time::Duration;

use cdb_client::Error;
use cdb_model::{Batch, ETag, Filter, ItemId, Patch, Query, Stored};
use duroxide::providers::{ProviderError, SessionFetchConfig, TagFilter, WorkItem};

use super::table::WorkLock;
use crate::documents::{Durable, WorkerItem, WorkerItemKey};
use crate::error::{provider_error, unreadable};
use crate::provider::Inner;
use crate::session::Claim as SessionClaim;
use crate::wait::Candidate;

const FETCH: &str = "fetch_work_item";

/// An activity that may be free, as it was last seen.
#[derive(Clone, Debug)]
pub(crate) struct WorkerCandidate(pub(crate) Stored<WorkerItem>);

impl Candidate for WorkerCandidate {
    type Key = (String, ItemId);

    fn key(&self) -> Self::Key {
        (self.0.document.instance_id.clone(), self.0.id.clone())
    }
}

/// Implements `Provider::fetch_work_item`.
pub(crate) async fn fetch(
    inner: &Inner,
    lock_timeout: Duration,
    patience: Duration,
    session: Option<&SessionFetchConfig>,
    tags: &TagFilter,
) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
    if matches!(tags, TagFilter::None) {
        return Ok(None);
    }
    let wanted = |candidate: &WorkerCandidate| {
        let item = &candidate.0.document;
        tags.matches(item.tag.as_deref())
            && inner
                .sessions
                .may_fetch(item, session, inner.container.now())
    };
    let mut waiter = inner.activities.wait(patience);
    while let Some(candidate) = waiter.next(wanted, || poll(inner, session, tags)).await? {
        let now = inner.container.now();
        if !candidate.0.document.is_free(now) {
            continue;
        }
        let Some(claim) = Claim::try_new(inner, &candidate.0, lock_timeout) else {
            continue;
        };
        if let Some(fetched) = attempt(inner, &candidate.0, session, lock_timeout).await? {
            claim.keep();
            return Ok(Some(fetched));
        }
    }
    Ok(None)
}

/// Asks every physical partition for its first free activities that this worker may run.
async fn poll(
    inner: &Inner,
    session: Option<&SessionFetchConfig>,
    tags: &TagFilter,
) -> Result<Vec<WorkerCandidate>, ProviderError> {
    let mut free = WorkerItem::VISIBLE_AT.le(inner.container.now());
    if let Some(tags) = tagged(tags) {
        free = free & tags;
    }
    if session.is_none() {
        free = free
            & absent(
                WorkerItem::SESSION_ID.is_null(),
                WorkerItem::SESSION_ID.is_defined(),
            );
    }
    let slots = inner.leases.slots().await;
    if !slots.is_all() {
        free = free & WorkerItem::DISPATCH_SLOT.is_in(slots.iter());
    }
    let query = Query::<WorkerItem>::across_partitions()
        .filter(free)
        .order_by(WorkerItem::BY_DUE.asc())
        .top(inner.activity_prefetch);
    let items: Vec<Stored<WorkerItem>> = inner
        .container
        .query(query)
        .all()
        .await
        .map_err(|error| provider_error(FETCH, &error))?;
    Ok(items.into_iter().map(WorkerCandidate).collect())
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
    session: Option<&SessionFetchConfig>,
    lock_timeout: Duration,
) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
    let claim = match session.filter(|_| seen.document.session_id.is_some()) {
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
    let work_item = serde_json::from_str(&seen.document.work_item)
        .map_err(|error| unreadable(FETCH, format!("activity `{}`: {error}", seen.id)))?;

    let now = inner.container.now();
    let mut item = seen.document.clone();
    let token = uuid::Uuid::new_v4().to_string();
    item.lock_token = Some(token.clone());
    item.locked_until = Some(now + lock_timeout);
    item.visible_at = now + lock_timeout;
    item.attempt_count += 1;
    let attempt_count = item.attempt_count;

    let etag = match write(inner, seen, &item, claim.as_ref()).await? {
        Ok(etag) => etag,
        Err(error) => settle(inner, seen, &token, error).await?,
    };
    let Some(etag) = etag else { return Ok(None) };
    if let Some(claim) = &claim {
        inner.sessions.claimed(claim);
    }
    inner.work.insert(WorkLock {
        token: token.clone(),
        item: Stored {
            id: seen.id.clone(),
            document: item,
            etag,
            timestamp: now,
        },
        ended: false,
    });
    Ok(Some((work_item, token, attempt_count)))
}

/// One conditional write: of the item, or of the item together with its session.
async fn write(
    inner: &Inner,
    seen: &Stored<WorkerItem>,
    locked: &WorkerItem,
    session: Option<&SessionClaim>,
) -> Result<Result<Option<ETag>, Error>, ProviderError> {
    let patch = Patch::<WorkerItem>::new()
        .set(WorkerItem::LOCK_TOKEN, locked.lock_token.clone())
        .set(WorkerItem::LOCKED_UNTIL, locked.locked_until)
        .set(WorkerItem::VISIBLE_AT, locked.visible_at)
        .set(WorkerItem::ATTEMPT_COUNT, locked.attempt_count);
    let mut batch = Batch::<Durable>::new(&*locked.instance_id);
    let locked = batch
        .patch_stored(seen, &patch)
        .map_err(|error| unreadable(FETCH, error))?;
    if let Some(session) = session {
        session
            .add_to(&mut batch)
            .map_err(|error| unreadable(FETCH, error))?;
    }
    Ok(inner
        .container
        .execute(&batch)
        .await
        .map(|outcome| outcome.etag(locked).cloned()))
}

/// What a failed lock means: `Some` when it took place all the same, `None` when somebody else was faster.
async fn settle(
    inner: &Inner,
    seen: &Stored<WorkerItem>,
    token: &str,
    error: Error,
) -> Result<Option<ETag>, ProviderError> {
    if error.is_ambiguous() {
        let found = read(inner, FETCH, seen).await?;
        return Ok(found
            .filter(|stored| stored.document.lock_token.as_deref() == Some(token))
            .map(|stored| stored.etag));
    }
    if error.is_conflict() || error.is_precondition_failed() || error.is_not_found() {
        return Ok(None);
    }
    Err(provider_error(FETCH, &error))
}

/// The item as it is now.
pub(super) async fn read(
    inner: &Inner,
    operation: &'static str,
    item: &Stored<WorkerItem>,
) -> Result<Option<Stored<WorkerItem>>, ProviderError> {
    let item = &item.document;
    let key = WorkerItemKey::new(&*item.instance_id, item.execution_id, item.activity_id);
    inner
        .container
        .read(&key)
        .await
        .map_err(|error| provider_error(operation, &error))
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
