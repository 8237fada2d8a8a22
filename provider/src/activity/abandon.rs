//! Releases an activity without a result.

use std::time::Duration;

use super::LOST;
use crate::error::{Error, Result};
use crate::queue::Services;
use crate::queue::activities::EffectsState;
use crate::queue::activities::lock::unlock_until;

/// Implements `Provider::abandon_work_item`.
pub(crate) async fn abandon(
    services: &Services,
    token: &str,
    delay: Option<Duration>,
    ignore_attempt: bool,
) -> Result<()> {
    let shared = services.activities().local().running(token)?;
    let mut lock = shared.lock().await;
    if lock.ended {
        return Err(Error::LockLost("the activity has ended"));
    }
    if lock.effects == EffectsState::Committed {
        services.activities().finish(&mut lock);
        return Ok(());
    }
    let delay = delay.unwrap_or_default();
    let visible_at = services.store.now() + delay;
    let item = lock.item.clone();
    let unlocked = unlock_until(&services.store, item, visible_at, !ignore_attempt).await;
    services.activities().finish(&mut lock);
    match unlocked {
        Ok(free) => {
            services.activities().note_free(free, delay);
            Ok(())
        }
        Err(error) if error.is_not_found() || error.is_precondition_failed() => {
            Err(Error::LockLost(LOST))
        }
        // Applied or not, the lock expires.
        Err(error) => Err(error.into()),
    }
}
