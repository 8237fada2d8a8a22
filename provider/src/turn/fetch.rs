//! From a hint to a locked turn.

use std::time::Duration;

use cdb_coordination::Lockable;
use cdb_model::Timestamp;
use duroxide::providers::DispatcherCapabilityFilter;

use super::hand_out::{self, Fetched};
use super::load::{self, Loaded};
use super::lock;
use super::orphans;
use super::poll;
use super::prelock;
use crate::error::Result;
use crate::instances::{Attempt, InstanceQueue, Instances, RejectedCommit, Turn, supports};
use crate::local_queue::{Guard, Taken};
use crate::services::Services;
use crate::store::Store;

/// How long an instance that another runtime holds is left alone. Its lock may end at any time, so not for long.
const HELD_PAUSE: Duration = Duration::from_millis(100);
/// How long an instance is left alone about which the service did not answer.
const UNANSWERED_PAUSE: Duration = Duration::from_secs(1);

/// What one dispatcher asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    pub(super) lock_timeout: Duration,
    pub(super) filter: Option<&'a DispatcherCapabilityFilter>,
    /// It waits for work, as a runtime's dispatcher does. Otherwise it looks once.
    pub(super) long_poll: bool,
}

/// The result of an attempt.
enum Verdict {
    Locked(Box<Turn>),
    /// There is nothing to do.
    Nothing,
    /// Another runtime works on the instance. `recheck`: look again after a pause.
    HeldElsewhere {
        recheck: bool,
    },
    /// It cannot be worked on, for all that is known from messages due until `newest`.
    Unfit {
        newest: Timestamp,
        pinned: Option<u64>,
    },
}

/// Implements `Provider::fetch_orchestration_item`.
pub(crate) async fn fetch(
    services: &Services,
    lock_timeout: Duration,
    poll_timeout: Duration,
    filter: Option<&DispatcherCapabilityFilter>,
) -> Result<Option<Fetched>> {
    let request = Request {
        lock_timeout,
        filter,
        long_poll: !poll_timeout.is_zero(),
    };
    let ask = InstanceQueue::ask(lock_timeout, request.long_poll, filter);
    let mut waiter = services.instances().local().fetch(ask, poll_timeout);
    let poll = |number| poll::poll(services, number);
    let start_poll = |number| poll::start(services, number);
    while let Some(taken) = waiter.next(poll, start_poll).await? {
        let fetched = match taken {
            Taken::Locked(guard, turn) => {
                prelock::begin(services, guard, turn, lock_timeout).await?
            }
            Taken::Free(guard, known) => attempt(services, guard, known, request).await?,
        };
        if fetched.is_some() {
            return Ok(fetched);
        }
    }
    Ok(None)
}

/// Tries an instance, and notes what came of it.
async fn attempt(
    services: &Services,
    guard: Guard<'_, Instances>,
    known: Attempt,
    request: Request<'_>,
) -> Result<Option<Fetched>> {
    let verdict = match decide(services, &guard, &known, request).await {
        Ok(verdict) => verdict,
        Err(error) if error.is_retryable() => {
            let search = std::time::Instant::now();
            guard.back_off(UNANSWERED_PAUSE, |known| known.search(search));
            return Err(error);
        }
        // One instance must not keep its dispatcher from all others.
        Err(error) => {
            let instance = &guard.claim.key;
            tracing::error!(instance, %error, "an instance cannot be worked on");
            Verdict::Unfit {
                newest: services.store.now(),
                pinned: None,
            }
        }
    };
    match verdict {
        Verdict::Locked(turn) => return hand_out::begin(services, guard, *turn).await.map(Some),
        Verdict::Nothing => guard.give_back(|slot| slot.judged(&known)),
        Verdict::HeldElsewhere { recheck } => guard.back_off(HELD_PAUSE, |slot| {
            slot.judged(&known);
            slot.set_cached(None);
            slot.exists = true;
            if recheck {
                slot.search(std::time::Instant::now());
            }
        }),
        Verdict::Unfit { newest, pinned } => {
            let pause = services.instances().pause_of(&guard.claim.key);
            guard.back_off(pause, |slot| {
                slot.judge_unfit(newest, pinned);
                // A poll finds the others again, behind what is new.
                if pinned.is_none() {
                    slot.judged(&known);
                }
            });
        }
    }
    Ok(None)
}

/// From a claim to a lock: by what is known if that is enough, by a load of the partition if not.
async fn decide(
    services: &Services,
    guard: &Guard<'_, Instances>,
    known: &Attempt,
    request: Request<'_>,
) -> Result<Verdict> {
    let instance_id = &guard.claim.key;
    if let Some(expected) = Loaded::expected(instance_id, known) {
        if let Some(verdict) = judge(services, &expected, request.filter).await? {
            return Ok(verdict);
        }
        if let Some(turn) = lock_turn(&services.store, guard, expected, request).await? {
            return Ok(Verdict::Locked(Box::new(turn)));
        }
        if known.is_polled && request.long_poll {
            // Another runtime owns it. The next poll finds whatever remains.
            return Ok(Verdict::HeldElsewhere { recheck: false });
        }
    }
    let loaded = load::load(&services.store, instance_id, known.execution.unwrap_or(1)).await?;
    if let Some(verdict) = judge(services, &loaded, request.filter).await? {
        return Ok(verdict);
    }
    let Some(loaded) = load::complete(&services.store, loaded).await? else {
        return Ok(Verdict::HeldElsewhere { recheck: true });
    };
    // A message for an instance that ended, and whose history is damaged, would have it fail again and again.
    if loaded.is_over() && loaded.history().is_err() {
        orphans::drop_all(services, &loaded).await?;
        return Ok(Verdict::Nothing);
    }
    let turn = lock_turn(&services.store, guard, loaded, request).await?;
    Ok(match turn {
        Some(turn) => Verdict::Locked(Box::new(turn)),
        None => Verdict::HeldElsewhere { recheck: true },
    })
}

async fn lock_turn(
    store: &Store,
    guard: &Guard<'_, Instances>,
    loaded: Loaded,
    request: Request<'_>,
) -> Result<Option<Turn>> {
    let token = uuid::Uuid::new_v4().to_string();
    guard.locking(&token, request.lock_timeout);
    let locked = lock::lock(store, &loaded, &token, request.lock_timeout).await?;
    let Some(instance) = locked else {
        return Ok(None);
    };
    let history = loaded.history();
    let rejected = match &history {
        Ok(_) => None,
        Err(_) => RejectedCommit::of_damaged(&loaded.readable_events(), &loaded.messages),
    };
    Ok(Some(Turn {
        token,
        instance,
        messages: loaded.messages,
        lock_time: request.lock_timeout,
        uncounted: None,
        kv: loaded.kv,
        history,
        long_poll: request.long_poll,
        rejected,
        ended: false,
    }))
}

/// Decides without a lock whether this runtime can work on the instance now; `None` if it can.
async fn judge(
    services: &Services,
    loaded: &Loaded,
    filter: Option<&DispatcherCapabilityFilter>,
) -> Result<Option<Verdict>> {
    if loaded.messages.is_empty() {
        return Ok(Some(Verdict::Nothing));
    }
    let instance = loaded.instance.as_ref().map(|stored| &stored.document);
    if instance.is_some_and(|instance| !instance.is_lockable(services.store.now())) {
        return Ok(Some(Verdict::HeldElsewhere { recheck: true }));
    }
    let newest = loaded.newest_due();
    // The filter comes before the lock and before any event is read: an incompatible execution may hold events that
    // this version does not know (provider guide, "Capability Filtering Contract").
    let pinned = instance.and_then(|instance| instance.pinned_duroxide_version_packed);
    if pinned.is_some_and(|pinned| !supports(filter, pinned)) {
        return Ok(Some(Verdict::Unfit { newest, pinned }));
    }
    if loaded.has_context() {
        return Ok(None);
    }
    if orphans::are_orphaned(&services.store, loaded).await? {
        orphans::drop_all(services, loaded).await?;
        return Ok(Some(Verdict::Nothing));
    }
    // Nothing says yet which orchestration its messages are for.
    let pinned = None;
    Ok(Some(Verdict::Unfit { newest, pinned }))
}
