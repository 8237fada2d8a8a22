//! Acknowledges an activity, or releases it without a result.

use std::time::Duration;

use duroxide::providers::WorkItem;
use tokio_util::sync::CancellationToken;

use super::LOST;
use super::end::{Ended, Ending, end};
use super::hand_over::{HandedOver, hand_over};
use crate::error::{Error, Result};
use crate::queue::Services;
use crate::queue::activities::lock::unlock_until;
use crate::queue::activities::{Activities, EffectsState};
use crate::queue::local_queue::Shared;
use crate::stored::Store;

/// Ends an activity with its completion, or without one if it was cancelled. `stalled` is cancelled if a
/// commit that ends it goes on without its dispatcher.
pub(super) async fn ack_locked(
    services: &Services,
    shared: &Shared<Activities>,
    completion: Option<WorkItem>,
    stalled: CancellationToken,
) -> Result<()> {
    let completion = completion.map(|completion| within_limit(&services.store, completion));
    let ended = CancellationToken::new();
    let _until_return = ended.clone().drop_guard();
    let mut lock = shared.lock().await;
    lock.acknowledging = Some(ended);
    let renewal_failed = lock.renewal_failed;
    match lock.effects {
        EffectsState::Committed => {
            services.activities().finish(&mut lock);
            return Ok(());
        }
        // The runtime abandons the activity after this error.
        EffectsState::Unsettled if completion.is_some() => {
            return Err(Error::Retryable(
                "the effects of the activity could not be committed; it runs again".to_owned(),
            ));
        }
        EffectsState::None | EffectsState::Unsettled => drop(lock),
    }
    if completion.is_none() && renewal_failed {
        // Not cancelled: duroxide drops an activity after any failed renewal, also one without an
        // answer.
        return abandon_locked(services, shared, Duration::ZERO, true).await;
    }
    let handed_over = match &completion {
        Some(completion) => hand_over(services, shared, completion, stalled).await?,
        None => HandedOver::Store(None),
    };
    let HandedOver::Store(storing) = handed_over else {
        return Ok(());
    };
    let ending = Ending {
        completion,
        delay: storing.as_ref().map(|it| it.delay).unwrap_or_default(),
        effects: None,
    };
    let ended = end(services, shared, ending).await;
    if let Some(storing) = storing {
        let etag = match &ended {
            Ok(Ended::Committed(committed)) => committed.completion.clone(),
            Ok(Ended::Refused { .. }) | Err(_) => None,
        };
        storing.end(etag);
        let instance_id = shared.lock().await.item.document.instance_id.clone();
        services.instances().withdraw(&instance_id);
    }
    ended.map(drop)
}

/// Returns the completion, or a failure if the result is too large. Rejecting the result would
/// repeat the activity endlessly.
fn within_limit(store: &Store, completion: WorkItem) -> WorkItem {
    let WorkItem::ActivityCompleted {
        instance,
        execution_id,
        id,
        result,
    } = &completion
    else {
        return completion;
    };
    let what = "the result of an activity";
    let Err(error) = store.limits.check_value(what, result.len()) else {
        return completion;
    };
    let details = error.in_operation("ack_work_item");
    WorkItem::ActivityFailed {
        instance: instance.clone(),
        execution_id: *execution_id,
        id: *id,
        details: details.to_infrastructure_error(),
    }
}

/// Implements `Provider::abandon_work_item`.
pub(crate) async fn abandon(
    services: &Services,
    token: &str,
    delay: Option<Duration>,
    ignore_attempt: bool,
) -> Result<()> {
    let shared = services.activities().local().running(token)?;
    abandon_locked(services, &shared, delay.unwrap_or_default(), ignore_attempt).await
}

/// Releases the lock of an activity.
pub(super) async fn abandon_locked(
    services: &Services,
    shared: &Shared<Activities>,
    delay: Duration,
    ignore_attempt: bool,
) -> Result<()> {
    let mut lock = shared.lock().await;
    if lock.ended {
        return Err(Error::LockLost("the activity has ended"));
    }
    if lock.effects == EffectsState::Committed {
        services.activities().finish(&mut lock);
        return Ok(());
    }
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
