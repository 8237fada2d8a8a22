//! Extending the lock of a turn that takes longer.

use std::time::Duration;

use cdb_client::Error;
use cdb_coordination::{Kept, keep};
use cdb_model::{Patch, Stored, Timestamp};
use duroxide::providers::ProviderError;

use super::table::Turn;
use crate::documents::Instance;
use crate::error::{lock_lost, provider_error};
use crate::provider::Inner;

const RENEW: &str = "renew_orchestration_item_lock";

/// Implements `Provider::renew_orchestration_item_lock`.
pub(crate) async fn renew(
    inner: &Inner,
    token: &str,
    extend_for: Duration,
) -> Result<(), ProviderError> {
    let shared = inner.turns.get(RENEW, token)?;
    let mut turn = shared.lock().await;
    let now = inner.container.now();
    if !turn.holds(now) {
        return Err(lock_lost(RENEW, "it has expired"));
    }
    let renewed = extend(inner, &mut turn, now + extend_for).await;
    if renewed.map_err(|error| provider_error(RENEW, &error))? {
        Ok(())
    } else {
        Err(lock_lost(
            RENEW,
            "another runtime took it, or it was deleted",
        ))
    }
}

/// Moves the end of the lock, unless it is lost. After a lost answer it may stay where it was: whoever renews does so
/// again well before the lock ends.
pub(super) async fn extend(
    inner: &Inner,
    turn: &mut Turn,
    until: Timestamp,
) -> Result<bool, Error> {
    let patch = Patch::<Instance>::new().set(Instance::LOCKED_UNTIL, Some(until));
    match keep(&inner.container, &turn.instance, &patch).await? {
        Kept::Written(etag) => {
            let mut instance = turn.instance.document.clone();
            instance.locked_until = Some(until);
            inner.turns.extend(&instance.instance_id, turn.claim, until);
            turn.advance(instance, etag);
        }
        Kept::Held(stored) => {
            let Stored { document, etag, .. } = *stored;
            turn.advance(document, etag);
        }
        Kept::Lost => return Ok(false),
    }
    Ok(true)
}
