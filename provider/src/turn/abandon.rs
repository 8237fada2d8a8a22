//! Ends a turn without a result.

use std::time::Duration;

use cdb_coordination::lease::{Fenced, execute_fenced};
use tokio::time::timeout;

use super::commit::commit_locked;
use super::hold::{self, Ended};
use super::unlock::Unlock;
use crate::error::{Error, Result, committed};
use crate::queue::Services;
use crate::queue::instances::lock::attempts_before;
use crate::queue::instances::{Turn, release};
use crate::timing::HAND_OVER;

/// Implements `Provider::abandon_orchestration_item`.
///
/// Delay and attempt count change only for the messages of this turn. Later messages keep theirs
/// (provider guide, "Releasing Without Commit").
pub(crate) async fn abandon(
    services: &Services,
    token: &str,
    delay: Option<Duration>,
    ignore_attempt: bool,
) -> Result<Ended> {
    let shared = services.instances().local().running(token)?;
    let mut turn = shared.lock().await;
    if turn.ended {
        return Err(Error::LockLost("the turn has ended"));
    }
    if delay.is_some()
        && !ignore_attempt
        && let Some(reason) = hold::unregistered(services, &turn)
    {
        let Some(mut cancelled) = hold::cancelled(services, &turn)? else {
            hold::hold(services, &mut turn, reason).await;
            return Ok(Ended::Held);
        };
        return Box::pin(commit_locked(services, turn, &mut cancelled)).await;
    }
    let attempts = if ignore_attempt || turn.uncounted.is_some() {
        attempts_before(&turn)
    } else {
        turn.instance.document.attempts.clone()
    };
    give_back(&mut turn, delay.unwrap_or_default()).await;
    let is_counted = delay.is_none() && !ignore_attempt;
    if turn.messages.is_empty() && turn.instance.version.is_none() && !is_counted {
        // Neither the instance nor its start is stored.
        forget(services, &mut turn, delay.unwrap_or_default());
        return Ok(Ended::Abandoned);
    }
    let mut unlock = Unlock::new(services.container(), &mut turn, attempts).with_delay(delay);
    let fenced = execute_fenced(&mut unlock).await;
    forget(services, &mut turn, delay.unwrap_or_default());
    match fenced? {
        Fenced::CommittedBefore | Fenced::Lost => Err(Error::LockLost("another runtime took it")),
        Fenced::Refused(error) if error.is_precondition_failed() || error.is_not_found() => {
            release::unlock_outdated(&services.store, &turn).await;
            Err(Error::LockLost("another runtime took its messages"))
        }
        fenced => committed(fenced).map(|_| Ended::Abandoned),
    }
}

/// Leaves the messages that are not stored to their callers, with the delay. One that is being stored comes again
/// without it.
async fn give_back(turn: &mut Turn, delay: Duration) {
    let messages = std::mem::take(&mut turn.messages);
    for mut message in messages {
        if let Some(ticket) = message.ticket.take() {
            match timeout(HAND_OVER, ticket.give_back(delay)).await {
                Ok(Some(etag)) => message.was_stored(etag),
                Ok(None) | Err(_) => continue,
            }
        }
        turn.messages.push(message);
    }
}

/// Ends a released turn in this process. The versions of its messages have changed, and perhaps
/// their due times.
pub(super) fn forget(services: &Services, turn: &mut Turn, delay: Duration) {
    let instances = services.instances();
    instances.forget_messages(&turn.instance.document.instance_id);
    instances.finish(turn);
    let instance = &turn.instance.document;
    let execution = Some(instance.current_execution_id);
    let due_at = services.store.now() + delay;
    instances.recheck(&instance.instance_id, execution, due_at);
}
