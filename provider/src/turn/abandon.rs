//! Giving a turn back without a result.

use std::time::Duration;

use cdb_model::{Batch, BatchError, Patch};

use super::lock::{attempts_before, unlock_patch};
use super::table::Turn;
use crate::documents::{Durable, InstanceKey, OrchestratorItem};
use crate::error::{Error, Result};
use crate::services::Services;

/// Implements `Provider::abandon_orchestration_item`.
///
/// Delay and attempt count change for the messages of this turn alone: what came later keeps its own
/// (provider guide, "Releasing Without Commit").
pub(crate) async fn abandon(
    inner: &Services,
    token: &str,
    delay: Option<Duration>,
    ignore_attempt: bool,
) -> Result<()> {
    let shared = inner.instances.turn(token)?;
    let mut turn = shared.lock().await;
    if turn.ended {
        return Err(Error::LockLost("the turn has ended"));
    }
    let batch = release(inner, &turn, delay, ignore_attempt)?;
    let outcome = inner.container.execute(&batch).await;
    // Their versions have changed, and perhaps their times.
    let instance_id = &turn.instance.document.instance_id.clone();
    inner.instances.forget_messages(instance_id);
    inner.instances.finish(&mut turn);
    let instance = &turn.instance.document;
    inner.instances.suspect(
        &instance.instance_id,
        Some(instance.current_execution_id),
        delay.unwrap_or_default(),
    );
    match outcome {
        Ok(_) => Ok(()),
        Err(error) if error.is_precondition_failed() || error.is_not_found() => {
            Err(Error::LockLost("another runtime took it"))
        }
        // Applied or not, the lock ends by itself.
        Err(error) => Err(error.into()),
    }
}

fn release(
    inner: &Services,
    turn: &Turn,
    delay: Option<Duration>,
    ignore_attempt: bool,
) -> Result<Batch<Durable>, BatchError> {
    let now = inner.container.now();
    let instance = &turn.instance.document;
    let attempts = if ignore_attempt || turn.uncounted.is_some() {
        attempts_before(turn)
    } else {
        instance.attempts.clone()
    };
    let patch = unlock_patch(attempts, now);
    let mut batch = Batch::new(&*instance.instance_id);
    batch.patch_if_match(
        &InstanceKey::new(&*instance.instance_id),
        &patch,
        &turn.instance.etag,
    )?;
    if let Some(delay) = delay {
        let later = Patch::<OrchestratorItem>::new()
            .set(OrchestratorItem::VISIBLE_AT, now + delay)
            .set(OrchestratorItem::RESERVED, false);
        for message in &turn.messages {
            batch.patch_stored(&message.stored, &later)?;
        }
    }
    Ok(batch)
}
