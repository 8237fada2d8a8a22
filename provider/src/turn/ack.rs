//! The end of a turn: its commit, and what follows from it.

use cdb_client::machine_now;

use super::cargo::Cargo;
use super::commit::send;
use super::outgoing::Origin;
use super::refusal::Refusal;
use super::result::TurnResult;
use super::settle::settle;
use super::table::Turn;
use crate::documents::OutboxIntent;
use crate::error::{Error, Result};
use crate::outbox;
use crate::services::Services;

/// Implements `Provider::ack_orchestration_item`.
pub(crate) async fn commit(inner: &Services, token: &str, mut result: TurnResult) -> Result<()> {
    let shared = inner.instances.turn(token)?;
    let (mut turn, _committing) = shared.lock_for_commit().await;
    let now = inner.container.now();
    if !turn.holds(now) {
        inner.instances.finish(&mut turn);
        return Err(Error::LockLost("it has expired"));
    }
    if let Some(refusal) = turn.refused.take() {
        refusal.complete(&mut result);
    }
    let origin = Origin {
        instance_id: &turn.instance.document.instance_id.clone(),
        token,
        now,
        machine_now: machine_now(),
    };
    let intents = match load_and_send(inner, &mut turn, &result, &origin).await {
        Ok(left) => left,
        Err(error) => {
            if !error.is_retryable() && !turn.ended {
                // The runtime fails the orchestration with this error, in a second commit.
                turn.refused = Some(Refusal::of(turn.past.as_ref().ok(), &result));
            }
            return Err(error);
        }
    };
    let patient = turn.patient;
    drop(turn);
    if intents.is_empty() {
        return Ok(());
    }
    if patient {
        // A dispatcher goes on. Who looks once sees at once what the turn has done elsewhere.
        inner.spawn(|inner| async move { outbox::deliver_all(&inner, intents).await });
    } else {
        outbox::deliver_all(inner, intents).await;
    }
    Ok(())
}

/// Commits the turn. Returns what is left to deliver.
async fn load_and_send(
    inner: &Services,
    turn: &mut Turn,
    result: &TurnResult,
    origin: &Origin<'_>,
) -> Result<Vec<OutboxIntent>> {
    let mut cargo = Cargo::load(inner, turn, origin, result)?;
    match send(inner, turn, result, origin, &mut cargo).await {
        Ok(sent) => Ok(settle(inner, turn, result, cargo, sent)),
        Err(error) => {
            cargo.spilling.give_up(inner);
            Err(error)
        }
    }
}
