//! Locks an instance for a change by an operator, outside of the queues.

use cdb_coordination::lease::Lockable as _;
use cdb_model::operation::BatchError;
use cdb_model::{Batch, Patch, Stored, Timestamp};
use duroxide::providers::WorkItem;

use super::renew::LOST;
use super::{load, lock, renew};
use crate::error::{Error, Result};
use crate::queue::Services;
use crate::queue::instances::{Turn, release};
use crate::stored::documents::{Durable, Incarnation, Instance};
use crate::stored::found;
use crate::timing::{OPERATOR_ATTEMPTS, OPERATOR_LOCK, RETRY_PAUSE};

/// A turn of an operator. The caller commits it, or releases it.
#[derive(Debug)]
pub(crate) struct ExclusiveTurn(
    pub(crate) Turn,
    /// All messages that stay queued are due at this time or later.
    pub(crate) Timestamp,
);

/// The result of a batch under the lock of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Done,
    /// The document of this added operation has changed, and nothing is written.
    Refused(usize),
    /// The answer was lost, or the instance has another version. What was read before does not count.
    Unknown,
}

impl ExclusiveTurn {
    /// Runs work, and renews the lock until it is done.
    ///
    /// # Errors
    /// Fails when the work fails, or the lock is lost.
    pub(crate) async fn while_doing<T>(
        &mut self,
        services: &Services,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let turn = &mut self.0;
        // Short works one after the other do not renew it.
        let is_old = turn.lasts_less_than(services.store.now(), turn.lock_time / 3 * 2);
        if is_old && !renew::extend_for_commit(services, turn).await? {
            return Err(Error::LockLost(LOST));
        }
        renew::while_doing(services, turn, work).await
    }

    /// Stores the pause of `after`, or its end, and what `add` adds, in one batch on the version
    /// of this turn. The batch renews the lock, and leaves the version for the next one.
    ///
    /// # Errors
    /// Fails when the write fails, or the lock is lost.
    pub(crate) async fn write(
        &mut self,
        services: &Services,
        mut after: Instance,
        add: impl FnOnce(&mut Batch<Durable>) -> Result<(), BatchError>,
    ) -> Result<Written> {
        let Some(held) = self.0.instance.stored() else {
            return Err(Error::LockLost(LOST));
        };
        after.locked_until = Some(services.store.now() + self.0.lock_time);
        let mut patch = Patch::<Instance>::new()
            .set(Instance::PAUSED, after.paused.clone())
            .set(Instance::LOCKED_UNTIL, after.locked_until);
        if !after.is_created() {
            patch = patch.set(
                Instance::PARENT_INSTANCE_ID,
                after.parent_instance_id.clone(),
            );
        }
        let mut batch = Batch::<Durable>::new(&*after.instance_id);
        let operation = batch.add(patch.at(&held))?;
        add(&mut batch)?;
        match services.container().execute(&batch).await {
            Ok(outcome) => match outcome.etag(operation) {
                Some(etag) => {
                    self.0.advance(after, etag.clone());
                    Ok(Written::Done)
                }
                None => self.read_again(services, &held).await,
            },
            Err(error) if error.is_precondition_failed() || error.is_not_found() => {
                match error
                    .operation_index()
                    .and_then(|index| index.checked_sub(1))
                {
                    Some(refused) => Ok(Written::Refused(refused)),
                    None => self.read_again(services, &held).await,
                }
            }
            Err(error) if error.is_ambiguous() => self.read_again(services, &held).await,
            Err(error) => Err(error.into()),
        }
    }

    /// Adopts another version of the instance, if the lock is still held.
    async fn read_again(
        &mut self,
        services: &Services,
        held: &Stored<Instance>,
    ) -> Result<Written> {
        let found = services.container().latest_committed().read(held).await?;
        let is_ours = |found: &Stored<Instance>| found.document.lock_mark() == Some(&*self.0.token);
        let Some(found) = found.filter(is_ours) else {
            return Err(Error::LockLost(LOST));
        };
        self.0.advance(found.document, found.etag);
        Ok(Written::Unknown)
    }

    /// Releases the lock without a commit.
    pub(crate) async fn release(self, services: &Services) {
        release::unlock(&services.store, &self.0).await;
    }

    /// Releases the lock of an instance that nobody starts, and deletes it, if it was only locked.
    pub(crate) async fn discard(self, services: &Services) {
        release::unlock_outdated(&services.store, &self.0).await;
    }
}

/// Locks an instance. Creates one that was found before it has begun, as a child of its parent, so that
/// a deletion of the parent finds it. Returns `None` if the instance is not there any more: it was
/// deleted, and its id may have another instance.
///
/// Its queued messages stay queued, except cancellations, which the commit consumes. Waits for a runtime
/// that drops messages of the ended instance.
///
/// # Errors
/// Fails when runtimes keep the instance locked for too long.
pub(crate) async fn exclusively(
    services: &Services,
    instance: &Incarnation,
    execution_id: u64,
) -> Result<Option<ExclusiveTurn>> {
    for _ in 0..OPERATOR_ATTEMPTS {
        match attempt(services, instance, execution_id).await? {
            Attempted::Locked(turn) => return Ok(Some(*turn)),
            Attempted::Gone => return Ok(None),
            Attempted::Busy => tokio::time::sleep(RETRY_PAUSE).await,
        }
    }
    Err(Error::Retryable(format!(
        "a runtime holds instance `{}`; try again",
        instance.instance_id
    )))
}

enum Attempted {
    Locked(Box<ExclusiveTurn>),
    /// A runtime has locked the instance, or has changed it during the read.
    Busy,
    Gone,
}

async fn attempt(
    services: &Services,
    instance: &Incarnation,
    execution_id: u64,
) -> Result<Attempted> {
    let store = &services.store;
    let loaded = load::load(store, &instance.instance_id, execution_id).await?;
    let Some(mut loaded) = load::complete(store, loaded).await? else {
        return Ok(Attempted::Busy);
    };
    let queued = loaded.found_messages();
    let queued = queued.map(|message| message.stored.document.due_at());
    let first_due = queued.min().unwrap_or(loaded.due_at).min(loaded.due_at);
    // The lock is conditional on the loaded version.
    let is_it = match loaded.instance.as_ref().map(|stored| &stored.document) {
        Some(found) if Incarnation::of(found).is(instance) => true,
        Some(found) if found.is_begun_or_paused() => false,
        Some(_) | None => !instance.has_begun(),
    };
    if !is_it {
        let is_there = found::is_there(&store.container, instance).await?;
        // The replica of the load may be stale, and the creation time of a damaged instance unreadable.
        match (is_there, loaded.is_damaged()) {
            (false, _) => return Ok(Attempted::Gone),
            (true, false) => return Ok(Attempted::Busy),
            (true, true) => {}
        }
    }
    loaded.parent.clone_from(&instance.parent);
    // A cancellation that was meant for the ended execution must not cancel the next one.
    loaded.messages.retain(|message| {
        matches!(
            message.content.item(),
            Some(WorkItem::CancelInstance { .. })
        )
    });
    if loaded.is_locked(store.now()) {
        return Ok(Attempted::Busy);
    }
    let token = store.new_lock_token();
    let turn = lock::lock(store, loaded, token, OPERATOR_LOCK).await?;
    let rejected = None;
    Ok(turn.map_or(Attempted::Busy, |turn| {
        Attempted::Locked(Box::new(ExclusiveTurn(
            Turn { rejected, ..turn },
            first_due,
        )))
    }))
}
