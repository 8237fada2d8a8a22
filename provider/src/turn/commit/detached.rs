//! Commits without their dispatcher: a partition that throttles a commit or does not answer it would hold
//! the dispatcher that other partitions wait for.
//!
//! duroxide gets an error that it does not retry, and a turn that is no longer its own (duroxide 0.1.32,
//! `ack_orchestration_with_changes`). The commit goes on as before. So no work is repeated, however large
//! the turn, and an unknown outcome is decided by the call that knows the write. The same holds for a commit
//! that the runtime breaks off when it shuts down.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::end;
use crate::error::{Error, Result};
use crate::queue::Services;
use crate::queue::hand_over::Ticket;
use crate::queue::instances::{Instances, TurnResult, release};
use crate::queue::local_queue::Shared;
use crate::timing::COMMIT_REFUSED;
use crate::turn::abandon::forget;
use crate::turn::hold::Ended;

/// Implements `Provider::ack_orchestration_item`. The dispatcher of a runtime waits until its partition
/// has throttled the commit for [`COMMIT_REFUSED`] or does not answer, while others answer.
///
/// # Errors
/// [`Error::LockLost`] when the commit goes on without its dispatcher.
pub(crate) async fn commit(services: &Services, token: &str, result: TurnResult) -> Result<Ended> {
    let queue = services.instances().local();
    let running = queue.running(token)?;
    let fetched = queue.with(|queue, _| queue.fetched(token));
    let Some((instance, _)) = fetched.filter(|(_, caller)| caller.is_runtime()) else {
        return end(services, &running, result).await;
    };
    let calls = Arc::new(OnceLock::new());
    let noted = calls.clone();
    let waits = CancellationToken::new();
    let waiting = waits.clone();
    let cloned = services.clone();
    let mut commit = services.store.tasks.outliving(|left| async move {
        let mut turn = running.lock().await;
        turn.waits = waiting;
        let tickets = turn.messages.iter().filter_map(|it| it.ticket.as_ref());
        let _first = noted.set(tickets.map(Ticket::stalled).collect::<Vec<_>>());
        drop(turn);
        let ended = end(&cloned, &running, result).await;
        if let Err(error) = &ended
            && left.is_cancelled()
        {
            repeat(&cloned, &running, error).await;
        }
        ended
    });
    let partition = instance.as_str().into();
    let container = services.container();
    tokio::select! {
        ended = container.until_stalled(&partition, COMMIT_REFUSED, &mut commit) => {
            if let Ok(ended) = ended {
                return ended;
            }
        }
        () = waits.cancelled() => {}
    }
    queue.detach(token);
    // Those who wait for this commit are free, too.
    let calls = calls.get().into_iter().flatten();
    calls.for_each(CancellationToken::cancel);
    tracing::warn!(
        instance,
        "a commit goes on without its dispatcher, because its partition is slow or throttles it"
    );
    drop(commit);
    Err(Error::LockLost(
        "its partition does not answer; the commit goes on without the runtime",
    ))
}

/// Gives back a turn whose commit has failed. The runtime gets it again, and the next error of its
/// commit.
async fn repeat(services: &Services, running: &Shared<Instances>, error: &Error) {
    let mut turn = running.lock().await;
    let instance = &turn.instance.document.instance_id;
    tracing::warn!(instance, %error, "a commit without its dispatcher failed");
    if !turn.ended {
        release::unlock(&services.store, &turn).await;
        forget(services, &mut turn, Duration::ZERO);
    }
}
