//! Locks the turn of a known instance.

use std::time::Duration;

use cdb_client::ErrorKind;
use cdb_coordination::lease::Lockable;
use cdb_model::{Stored, Timestamp};
use duroxide::providers::DispatcherCapabilityFilter;
use tokio::time::Instant;

use super::hand_out::{self, Fetched};
use super::load::{self, Surplus};
use super::loaded::Loaded;
use super::paused::{HeldBack, hold_back};
use super::{lock, orphans};
use crate::error::Result;
use crate::queue::instances::{AllMessages, Attempt, Instances, Message, Presence, Turn, supports};
use crate::queue::local_queue::{Caller, FetchRequest, Guard, Taken};
use crate::queue::poll::Fetch;
use crate::queue::{Services, go_behind};
use crate::stored::Store;
use crate::stored::documents::{Instance, InstanceKey};
use crate::timing::{HELD_BACKOFF, MESSAGE_RESERVED, STORE_LOCK, UNANSWERED_BACKOFF};

/// The request of one dispatcher.
type Request = FetchRequest<Option<DispatcherCapabilityFilter>>;

/// The result of an attempt.
enum Attempted {
    Locked(Box<Turn>),
    /// The instance has no due messages.
    Nothing,
    /// The due messages are events of these queues, for which the execution has no room.
    Full(Surplus),
    /// Another runtime holds the instance, until this time if it is known. With `recheck`, the
    /// dispatcher tries again after a backoff.
    HeldElsewhere {
        recheck: bool,
        until: Option<Timestamp>,
    },
    /// The instance cannot be processed, considering messages due until `newest`.
    Unfit {
        newest: Timestamp,
        pinned: Option<u64>,
    },
}

impl Attempted {
    fn held(until: Option<Timestamp>) -> Self {
        let recheck = true;
        Self::HeldElsewhere { recheck, until }
    }

    fn if_held(instance: &Instance, store: &Store) -> Option<Self> {
        let is_held = !instance.is_lockable(store.now());
        is_held.then(|| Self::held(instance.locked_until))
    }
}

/// Implements `Provider::fetch_orchestration_item`.
pub(crate) async fn fetch(
    services: &Services,
    lock_timeout: Duration,
    poll_timeout: Duration,
    filter: Option<&DispatcherCapabilityFilter>,
) -> Result<Option<Fetched>> {
    let request = Request {
        capability: filter.cloned(),
        lock_timeout,
        caller: Caller::of(poll_timeout),
    };
    let mut fetch = Fetch::<Instances>::start(services, request.clone(), poll_timeout, AllMessages);
    while let Some(taken) = fetch.next().await? {
        let fetched = match taken {
            Taken::Locked(_, never) => match never {},
            Taken::Free(guard, known) => attempt(services, guard, known, &request).await?,
        };
        if fetched.is_some() {
            return Ok(fetched);
        }
    }
    Ok(None)
}

/// Tries to lock an instance, and notes the result. The dispatcher does not wait for a physical
/// partition that does not answer, because other partitions have work.
async fn attempt(
    services: &Services,
    guard: Guard<'_, Instances>,
    known: Attempt,
    request: &Request,
) -> Result<Option<Fetched>> {
    let instance_id = guard.claim.key.clone();
    let Some(guard) = go_behind(services, guard, &instance_id, request.caller) else {
        return Ok(None);
    };

    let attempt = Box::pin(lock_or_decline(services, &guard, &known, request));
    let answered = match services.attempt(&guard.claim.key, attempt).await {
        Ok(answered) => answered,
        Err(backoff) => {
            guard.unanswered(backoff, |known| known.search(Instant::now().into_std()));
            return Ok(None);
        }
    };
    match answered {
        Ok(attempted) => conclude(services, guard, &known, attempted).await,
        Err(error) if error.is_retryable() => {
            let search = Instant::now().into_std();
            guard.unanswered(UNANSWERED_BACKOFF, |known| known.search(search));
            Err(error)
        }
        // One instance must not block its dispatcher.
        Err(error) => {
            let instance = &guard.claim.key;
            tracing::error!(instance, %error, "cannot process an instance");
            let newest = services.store.now();
            let pinned = None;
            let unfit = Attempted::Unfit { newest, pinned };
            conclude(services, guard, &known, unfit).await
        }
    }
}

/// Notes the result of an attempt.
async fn conclude(
    services: &Services,
    guard: Guard<'_, Instances>,
    known: &Attempt,
    attempted: Attempted,
) -> Result<Option<Fetched>> {
    match attempted {
        Attempted::Locked(turn) => {
            return hand_out::begin(services, guard, *turn).await;
        }
        Attempted::Nothing => guard.release(|slot| slot.attempt_ended(known)),
        Attempted::Full((queues, left)) => {
            let instances = services.instances();
            instances.finish_full(guard, known, queues, left);
        }
        Attempted::HeldElsewhere { recheck, until } => {
            let pause = known.presence.next_pause();
            let left = until.map(|until| until.since(services.store.now()));
            guard.back_off(pause_until(left, pause), |slot| {
                slot.attempt_ended(known);
                slot.cached = None;
                slot.presence = Presence::Held { pause };
                if recheck {
                    slot.search(Instant::now().into_std());
                }
            });
        }
        Attempted::Unfit { newest, pinned } => {
            let instances = services.instances();
            instances.back_off_unfit(guard, newest, pinned, |slot| {
                // A poll finds the other messages again, behind newer ones.
                if pinned.is_none() {
                    slot.attempt_ended(known);
                }
            });
        }
    }
    Ok(None)
}

/// Returns the pause, or a shorter one that ends just after the lock. It lasts a whole number of
/// first backoffs, so that runtimes that wait for the same lock do not all load the instance at once.
fn pause_until(lock_end: Option<Duration>, pause: Duration) -> Duration {
    let steps = lock_end.map(|left| left.as_millis().div_ceil(HELD_BACKOFF.as_millis()));
    let steps = steps.and_then(|steps| u32::try_from(steps).ok());
    steps.map_or(pause, |steps| pause.min(HELD_BACKOFF.saturating_mul(steps)))
}

/// Locks a claimed instance: by its cached state if that is sufficient, otherwise after a load of
/// the partition.
async fn lock_or_decline(
    services: &Services,
    guard: &Guard<'_, Instances>,
    known: &Attempt,
    request: &Request,
) -> Result<Attempted> {
    let (instance_id, filter) = (&guard.claim.key, request.capability.as_ref());
    if services.instances().was_paused(instance_id)
        && let Some(held) = hold_back_known(services, instance_id, known).await?
    {
        return Ok(held);
    }
    let renewed = read_arrived(services, instance_id, known).await?;
    let known = renewed.as_ref().unwrap_or(known);
    if let Some(expected) = Loaded::expected(instance_id, known) {
        if let Some(attempted) = check_runnable(services, &expected, filter).await? {
            return Ok(attempted);
        }
        let expected = match load::without_surplus_events(&services.store, expected).await? {
            Ok(expected) => expected,
            Err(full) => return Ok(Attempted::Full(full)),
        };
        let turn = match reserved_until(&services.store, &expected, request) {
            Some(until) => Some(reserve_turn(&services.store, expected, request, until)?),
            None => lock_turn(&services.store, guard, expected, request).await?,
        };
        if let Some(turn) = turn {
            return Ok(Attempted::Locked(Box::new(turn)));
        }
        if known.is_polled && request.caller.is_runtime() {
            // Another runtime owns it. The next poll finds whatever remains.
            guard.lost_race();
            let (recheck, until) = (false, None);
            return Ok(Attempted::HeldElsewhere { recheck, until });
        }
    }
    if matches!(known.presence, Presence::Held { .. })
        && let Some(held) = still_held(&services.store, instance_id).await?
    {
        return Ok(held);
    }
    let loaded = load::load(&services.store, instance_id, known.execution.unwrap_or(1)).await?;
    if let Some(attempted) = check_runnable(services, &loaded, filter).await? {
        return Ok(attempted);
    }
    let Some(loaded) = load::complete(&services.store, loaded).await? else {
        return Ok(Attempted::held(None));
    };
    // A message for an ended instance with a damaged history would fail the instance again and
    // again.
    if loaded.is_over() && loaded.history().is_err() {
        orphans::delete(services, &loaded.instance_id, &loaded.messages).await?;
        return Ok(Attempted::Nothing);
    }
    let loaded = match load::without_surplus_events(&services.store, loaded).await? {
        Ok(loaded) => loaded,
        Err(full) => return Ok(Attempted::Full(full)),
    };
    let turn = match tried_until(&services.store, &loaded, known, request) {
        Some(until) => Some(reserve_turn(&services.store, loaded, request, until)?),
        None => lock_turn(&services.store, guard, loaded, request).await?,
    };
    Ok(match turn {
        Some(turn) => Attempted::Locked(Box::new(turn)),
        None => Attempted::held(None),
    })
}

/// Reads the messages that a full execution may have got since all were known, and whether another
/// runtime has committed a turn. Costs little, while a load reads all that wait. Returns what is known
/// then; `None` for other instances.
async fn read_arrived(
    services: &Services,
    instance_id: &str,
    known: &Attempt,
) -> Result<Option<Attempt>> {
    let Some(since) = known.unread_since else {
        return Ok(None);
    };
    if known.search || known.cached.is_none() {
        return Ok(None);
    }
    let arrived = load::arrived(&services.store, instance_id, since).await?;
    Ok(services.instances().arrived(instance_id, arrived))
}

/// Holds back the known messages of an instance that was paused. Costs a point read, while a load
/// reads the whole history. Returns `None` when the instance is not paused, or must be searched.
async fn hold_back_known(
    services: &Services,
    instance_id: &str,
    known: &Attempt,
) -> Result<Option<Attempted>> {
    if known.search || known.messages.is_empty() {
        return Ok(None);
    }
    let key = InstanceKey::new(instance_id);
    let found = match services.container().read(&key).await {
        Err(error) if error.kind() == ErrorKind::Decode => None,
        found => found?,
    };
    let Some(paused) = found.filter(|found| found.document.paused.is_some()) else {
        services.instances().forget_pause(instance_id);
        return Ok(None);
    };
    match Attempted::if_held(&paused.document, &services.store) {
        Some(held) => Ok(Some(held)),
        None => Ok(Some(
            hold_all_back(services, &paused, &known.messages).await?,
        )),
    }
}

async fn hold_all_back(
    services: &Services,
    paused: &Stored<Instance>,
    messages: &[Message],
) -> Result<Attempted> {
    services
        .instances()
        .note_pause(&paused.document.instance_id);
    // The next poll finds whatever remains.
    let (recheck, until) = (false, None);
    Ok(match hold_back(&services.store, paused, messages).await? {
        HeldBack::Yes => Attempted::Nothing,
        HeldBack::Outdated => Attempted::HeldElsewhere { recheck, until },
    })
}

/// Returns the result of an attempt if a runtime still holds the instance. Costs a point read, while
/// a load reads the whole history.
async fn still_held(store: &Store, instance_id: &str) -> Result<Option<Attempted>> {
    match store.container.read(&InstanceKey::new(instance_id)).await {
        Ok(found) => Ok(found.and_then(|stored| Attempted::if_held(&stored.document, store))),
        // The load handles a corrupt instance.
        Err(error) if error.kind() == ErrorKind::Decode => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns until when no other runtime looks at the instance for the known messages; `None` if that
/// is too short for a turn without a stored lock.
fn reserved_until(store: &Store, expected: &Loaded, request: &Request) -> Option<Timestamp> {
    let until = expected.reserved_until()?;
    let is_enough = until.since(store.now()) > STORE_LOCK;
    (is_enough && request.caller.is_runtime()).then_some(until)
}

/// Returns until when a turn is tried again without a stored lock; `None` unless the code of this
/// process could not execute the turn before. The attempt then writes nothing, unless it takes long
/// or can execute the turn. The first attempt of each process has a lock, so that a turn that kills
/// the process is counted.
fn tried_until(
    store: &Store,
    loaded: &Loaded,
    known: &Attempt,
    request: &Request,
) -> Option<Timestamp> {
    let is_again = known.is_for_other_code && loaded.is_for_other_code();
    (is_again && request.caller.is_runtime()).then(|| store.now() + MESSAGE_RESERVED)
}

fn reserve_turn(
    store: &Store,
    expected: Loaded,
    request: &Request,
    until: Timestamp,
) -> Result<Turn> {
    let token = store.new_lock_token();
    let turn = lock::reserve(store, expected, token, request.lock_timeout, until)?;
    Ok(Turn {
        caller: request.caller,
        ..turn
    })
}

async fn lock_turn(
    store: &Store,
    guard: &Guard<'_, Instances>,
    loaded: Loaded,
    request: &Request,
) -> Result<Option<Turn>> {
    let token = store.new_lock_token();
    guard.locking(&token, request.lock_timeout);
    let turn = lock::lock(store, loaded, token, request.lock_timeout).await?;
    Ok(turn.map(|turn| Turn {
        caller: request.caller,
        ..turn
    }))
}

/// Decides without a lock whether this runtime can process the instance now. Returns `None` if it
/// can.
async fn check_runnable(
    services: &Services,
    loaded: &Loaded,
    filter: Option<&DispatcherCapabilityFilter>,
) -> Result<Option<Attempted>> {
    if loaded.messages.is_empty() {
        return Ok(Some(Attempted::Nothing));
    }
    let instance = loaded.instance.as_ref().map(|stored| &stored.document);
    let held = instance.and_then(|instance| Attempted::if_held(instance, &services.store));
    if held.is_some() {
        return Ok(held);
    }
    if let Some(paused) = loaded.paused() {
        return Ok(Some(
            hold_all_back(services, paused, &loaded.messages).await?,
        ));
    }
    let newest = loaded.newest_due();
    let mut missing = loaded.messages.iter().filter_map(|message| {
        let payloads = &services.store.payloads;
        payloads.missing_key(message.stored.document.work_item.header())
    });
    if let Some(reason) = missing.next() {
        tracing::warn!(instance = %loaded.instance_id, reason, "cannot process an instance yet");
        let pinned = None;
        return Ok(Some(Attempted::Unfit { newest, pinned }));
    }
    // The filter is applied before the lock and before any event is decoded: an incompatible
    // execution may hold events that this version does not know (provider guide, "Capability
    // Filtering Contract").
    let pinned = instance.and_then(|instance| instance.pinned_duroxide_version_packed);
    if pinned.is_some_and(|pinned| !supports(filter, pinned)) {
        return Ok(Some(Attempted::Unfit { newest, pinned }));
    }
    let stale = orphans::of_another_instance(loaded);
    if !stale.is_empty() {
        orphans::delete(services, &loaded.instance_id, &stale).await?;
        return Ok(Some(Attempted::held(None)));
    }
    if loaded.has_context() {
        return Ok(None);
    }
    let orphaned = orphans::among(&services.store, loaded).await?;
    if !orphaned.is_empty() {
        orphans::delete(services, &loaded.instance_id, &orphaned).await?;
        return Ok(Some(Attempted::Nothing));
    }
    // The start of the next execution has not arrived yet.
    let pinned = None;
    Ok(Some(Attempted::Unfit { newest, pinned }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_that_wait_for_the_same_lock_end_their_pauses_at_different_times() {
        const LOCK_END: u64 = 5_000;
        let lock_end = Duration::from_millis(LOCK_END);
        let mut ends: Vec<Duration> = (0..20)
            .map(|number| {
                let at = number * 237;
                let left = Some(Duration::from_millis(LOCK_END - at));
                Duration::from_millis(at) + pause_until(left, Duration::from_secs(60))
            })
            .collect();
        let soon = lock_end..lock_end + HELD_BACKOFF;
        assert!(ends.iter().all(|end| soon.contains(end)), "{ends:?}");
        ends.sort_unstable();
        ends.dedup();
        assert_eq!(ends.len(), 20);
    }
}
