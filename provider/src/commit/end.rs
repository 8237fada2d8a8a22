//! The end of a turn: its commit, and what follows from it.

use cdb_client::machine_now;

use super::apply::settle;
use super::content::Cargo;
use super::outgoing::Origin;
use super::send::send;
use crate::documents::OutboxIntent;
use crate::error::{Error, Result};
use crate::instances::{RejectedCommit, Turn, TurnResult};
use crate::outbox;
use crate::services::Services;

/// Implements `Provider::ack_orchestration_item`.
pub(crate) async fn commit(services: &Services, token: &str, mut result: TurnResult) -> Result<()> {
    let shared = services.instances().turn(token)?;
    let (mut turn, _committing) = shared.lock_for_commit().await;
    let now = services.store.now();
    if !turn.holds(now) {
        services.instances().finish(&mut turn);
        return Err(Error::LockLost("it has expired"));
    }
    if let Some(refusal) = turn.rejected.take() {
        refusal.complete(&mut result);
    }
    let origin = Origin {
        instance_id: &turn.instance.document.instance_id.clone(),
        token,
        now,
        machine_now: machine_now(),
    };
    let intents = match load_and_send(services, &mut turn, &result, &origin).await {
        Ok(left) => left,
        Err(error) => {
            if !error.is_retryable() && !turn.ended {
                // The runtime fails the orchestration with this error, in a second commit.
                turn.rejected = Some(RejectedCommit::of(turn.history.as_ref().ok(), &result));
            }
            return Err(error);
        }
    };
    let long_poll = turn.long_poll;
    drop(turn);
    if intents.is_empty() {
        return Ok(());
    }
    if long_poll {
        // A dispatcher goes on. Who looks once sees at once what the turn has done elsewhere.
        services.spawn(|services| async move { outbox::deliver_all(&services, intents).await });
    } else {
        outbox::deliver_all(services, intents).await;
    }
    Ok(())
}

/// Commits the turn. Returns what is left to deliver.
async fn load_and_send(
    services: &Services,
    turn: &mut Turn,
    result: &TurnResult,
    origin: &Origin<'_>,
) -> Result<Vec<OutboxIntent>> {
    let mut cargo = Cargo::load(&services.store, turn, origin, result)?;
    match send(services, turn, result, origin, &mut cargo).await {
        Ok(sent) => Ok(settle(services, turn, result, cargo, sent)),
        Err(error) => {
            cargo.spilling.give_up(services);
            Err(error)
        }
    }
}
