//! Locks the turn of an instance for a dispatcher. [`decide`] decides, and this driver reads and
//! writes.

use std::time::Duration;

use cdb_model::Stored;
use duroxide::providers::DispatcherCapabilityFilter;
use tokio::time::Instant;

use super::decide::{AfterLock, Decision, Declined, Extent, Request, Source, Unfit, View, decide};
use super::hand_out::{self, Fetched};
use super::loaded::Loaded;
use super::paused::{Withheld, withhold};
use super::{load, lock, orphans};
use crate::error::Result;
use crate::queue::instances::{AllMessages, Attempt, Instances, Message, Presence, Turn};
use crate::queue::local_queue::{Caller, Guard, Taken};
use crate::queue::poll::Fetch;
use crate::queue::{Services, go_behind};
use crate::stored::documents::Instance;
use crate::timing::{LOCKED_BACKOFF, UNANSWERED_BACKOFF};

/// The result of an attempt.
enum Attempted {
    /// The turn can begin: its lock is stored, or its messages are reserved for this process.
    Locked(Box<Turn>),
    Declined(Declined),
}

impl Attempted {
    fn locked(turn: Turn, request: &Request) -> Self {
        let caller = request.caller;
        Self::Locked(Box::new(Turn { caller, ..turn }))
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
        Ok(Attempted::Locked(turn)) => hand_out::begin(services, guard, *turn).await,
        Ok(Attempted::Declined(why)) => {
            decline(services, guard, &known, why);
            Ok(None)
        }
        Err(error) if error.is_retryable() => {
            let search = Instant::now().into_std();
            guard.unanswered(UNANSWERED_BACKOFF, |known| known.search(search));
            Err(error)
        }
        // One instance must not block its dispatcher.
        Err(error) => {
            let instance = &guard.claim.key;
            tracing::error!(instance, %error, "cannot process an instance");
            let (newest, cause) = (services.store.now(), Unfit::Failed);
            decline(services, guard, &known, Declined::Unfit { newest, cause });
            Ok(None)
        }
    }
}

/// Locks a claimed instance, by the first source that decides.
async fn lock_or_decline(
    services: &Services,
    guard: &Guard<'_, Instances>,
    known: &Attempt,
    request: &Request,
) -> Result<Attempted> {
    let (store, instance_id) = (&services.store, &guard.claim.key);
    let was_paused = services.instances().was_paused(instance_id);
    let mut newer = None;
    for source in Source::CHEAPEST_FIRST {
        let known = newer.as_ref().unwrap_or(known);
        if !source.is_useful(known, was_paused) {
            continue;
        }
        let loaded = match source {
            Source::Arrivals => {
                newer = read_arrived(services, instance_id, known).await?;
                continue;
            }
            Source::Cache => Loaded::expected(instance_id, known),
            Source::Pause | Source::Holder => {
                Some(load::document(store, instance_id, &known.messages).await?)
            }
            Source::Partition => {
                Some(load::load(store, instance_id, known.execution.unwrap_or(1)).await?)
            }
        };
        let Some(loaded) = loaded else { continue };
        let view = View {
            source,
            known,
            request,
            payloads: &store.payloads,
            extent: Extent::Partial,
        };
        if let Some(attempted) = perform(services, guard, view, loaded).await? {
            return Ok(attempted);
        }
    }
    // Another runtime was faster.
    Ok(Attempted::Declined(Declined::locked(None)))
}

/// Reads the messages that have come since all were known. Returns what is known then; `None` if the
/// process has forgotten the instance.
async fn read_arrived(
    services: &Services,
    instance_id: &str,
    known: &Attempt,
) -> Result<Option<Attempt>> {
    let Some(since) = known.unread_since else {
        return Ok(None);
    };
    let arrived = load::arrived(&services.store, instance_id, since).await?;
    Ok(services.instances().arrived(instance_id, arrived))
}

/// Performs the decisions about the documents of a source. Returns `None` if the next source must
/// decide.
async fn perform(
    services: &Services,
    guard: &Guard<'_, Instances>,
    mut view: View<'_>,
    mut loaded: Loaded,
) -> Result<Option<Attempted>> {
    let (store, request) = (&services.store, view.request);
    let declined = loop {
        match decide(&view, &loaded, store.now()) {
            Decision::LookFurther => return Ok(None),
            Decision::ForgetPause => {
                services.instances().forget_pause(&loaded.instance_id);
                return Ok(None);
            }
            Decision::Complete => {
                let Some(complete) = load::complete(store, loaded).await? else {
                    return Ok(None);
                };
                loaded = load::without_surplus_events(store, complete).await?;
                view.extent = Extent::Complete;
            }
            Decision::Reserve(until) => {
                let token = store.new_lock_token();
                let turn = lock::reserve(store, loaded, token, request.lock_timeout, until)?;
                return Ok(Some(Attempted::locked(turn, request)));
            }
            Decision::Lock => {
                let token = store.new_lock_token();
                guard.locking(&token, request.lock_timeout);
                match lock::lock(store, loaded, token, request.lock_timeout).await? {
                    Some(turn) => return Ok(Some(Attempted::locked(turn, request))),
                    None if view.leaves_to_winner() => {
                        guard.lost_race();
                        break Declined::overtaken();
                    }
                    None => return Ok(None),
                }
            }
            Decision::Withhold(paused) => {
                break withhold_all(services, paused, &loaded.messages).await?;
            }
            Decision::Delete(messages, declined) => {
                orphans::delete(services, &loaded.instance_id, &messages).await?;
                break declined;
            }
            Decision::DeleteOrphans => break delete_orphans(services, &loaded).await?,
            Decision::LeaveAll => break Declined::Full(loaded.full, loaded.left),
            Decision::Decline(declined) => break declined,
        }
    };
    Ok(Some(Attempted::Declined(declined)))
}

async fn withhold_all(
    services: &Services,
    paused: &Stored<Instance>,
    messages: &[Message],
) -> Result<Declined> {
    services
        .instances()
        .note_pause(&paused.document.instance_id);
    Ok(match withhold(&services.store, paused, messages).await? {
        Withheld::Yes => Declined::Nothing,
        Withheld::Outdated => Declined::overtaken(),
    })
}

/// Deletes the messages that no instance will receive. The others wait for a start.
async fn delete_orphans(services: &Services, loaded: &Loaded) -> Result<Declined> {
    let orphaned = orphans::among(&services.store, loaded).await?;
    if orphaned.is_empty() {
        let (newest, cause) = (loaded.newest_due(), Unfit::NoStart);
        return Ok(Declined::Unfit { newest, cause });
    }
    orphans::delete(services, &loaded.instance_id, &orphaned).await?;
    Ok(Declined::Nothing)
}

/// Notes why an attempt does not begin a turn.
fn decline(services: &Services, guard: Guard<'_, Instances>, known: &Attempt, why: Declined) {
    let instances = services.instances();
    match why {
        Declined::Nothing => guard.release(|slot| slot.attempt_ended(known)),
        Declined::Full(queues, left) => instances.finish_full(guard, known, queues, left),
        Declined::Locked { until, then } => {
            let backoff = known.presence.next_backoff();
            let left = until.map(|until| until.since(services.store.now()));
            guard.back_off(backoff_until(left, backoff), |slot| {
                slot.attempt_ended(known);
                slot.cached = None;
                slot.presence = Presence::Locked { backoff };
                if then == AfterLock::Search {
                    slot.search(Instant::now().into_std());
                }
            });
        }
        Declined::Unfit { newest, cause } => {
            if let Unfit::KeyMissing(reason) = &cause {
                tracing::warn!(instance = %guard.claim.key, reason, "cannot process an instance yet");
            }
            let pinned = match cause {
                Unfit::Pinned(version) => Some(version),
                Unfit::KeyMissing(_) | Unfit::NoStart | Unfit::Failed => None,
            };
            instances.back_off_unfit(guard, newest, pinned, |slot| {
                // A poll finds the other messages again, behind newer ones.
                if pinned.is_none() {
                    slot.attempt_ended(known);
                }
            });
        }
    }
}

/// Returns the backoff, or a shorter one that ends just after the lock. It lasts a whole number of
/// first backoffs, so that runtimes that wait for the same lock do not all load the instance at once.
fn backoff_until(lock_end: Option<Duration>, backoff: Duration) -> Duration {
    let steps = lock_end.map(|left| left.as_millis().div_ceil(LOCKED_BACKOFF.as_millis()));
    let steps = steps.and_then(|steps| u32::try_from(steps).ok());
    steps.map_or(backoff, |steps| {
        backoff.min(LOCKED_BACKOFF.saturating_mul(steps))
    })
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
                Duration::from_millis(at) + backoff_until(left, Duration::from_secs(60))
            })
            .collect();
        let soon = lock_end..lock_end + LOCKED_BACKOFF;
        assert!(ends.iter().all(|end| soon.contains(end)), "{ends:?}");
        ends.sort_unstable();
        ends.dedup();
        assert_eq!(ends.len(), 20);
    }
}
