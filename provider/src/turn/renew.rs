//! Extending the lock of a turn that takes longer.

use std::time::Duration;

use cdb_model::{Patch, Stored};
use duroxide::providers::ProviderError;

use super::resolve::{Fate, fate};
use crate::documents::{Instance, InstanceKey};
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
    let mut instance = turn.instance.document.clone();
    instance.locked_until = Some(now + extend_for);
    let key = InstanceKey::new(&*instance.instance_id);
    let patch = Patch::<Instance>::new().set(Instance::LOCKED_UNTIL, instance.locked_until);
    match inner
        .container
        .patch_if_match(&key, &patch, &turn.instance.etag)
        .await
    {
        Ok(written) => {
            inner
                .turns
                .extend(&instance.instance_id, turn.claim, now + extend_for);
            turn.advance(instance, written.etag);
            Ok(())
        }
        Err(error) if error.is_ambiguous() || error.is_precondition_failed() => {
            match fate(inner, RENEW, &turn).await? {
                // Ours, renewed or not: the caller renews again well before the lock ends.
                Fate::Held(stored) => {
                    let Stored { document, etag, .. } = *stored;
                    turn.advance(document, etag);
                    Ok(())
                }
                Fate::Committed | Fate::Lost => Err(lock_lost(RENEW, "another runtime took it")),
            }
        }
        Err(error) if error.is_not_found() => Err(lock_lost(RENEW, "the instance was deleted")),
        Err(error) => Err(provider_error(RENEW, &error)),
    }
}
