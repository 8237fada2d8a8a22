//! Locks an instance for a change by an operator, outside of the queues.

use cdb_coordination::{Kept, keep};
use cdb_model::Patch;
use duroxide::providers::WorkItem;

use super::{load, lock, renew};
use crate::error::{Error, Result};
use crate::queue::Services;
use crate::queue::instances::{Turn, release};
use crate::stored::documents::{Instance, OperatorAction};
use crate::timing::{OPERATOR_ATTEMPTS, OPERATOR_LOCK, RETRY_PAUSE};

/// A turn of an operator. The caller commits it, or releases it.
#[derive(Debug)]
pub(crate) struct ExclusiveTurn(pub(crate) Turn);

impl ExclusiveTurn {
    /// Runs work, and renews the lock until it is done.
    ///
    /// # Errors
    /// Fails when the work fails, or the lock is lost.
    pub(crate) async fn while_doing<T>(
        &mut self,
        services: &Services,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        renew::while_doing(services, &mut self.0, work).await
    }

    /// Stores the pause of the instance, or its end.
    ///
    /// # Errors
    /// Fails when the write fails, or the lock is lost.
    pub(crate) async fn set_paused(
        &mut self,
        services: &Services,
        paused: Option<OperatorAction>,
    ) -> Result<()> {
        let patch = Patch::<Instance>::new().set(Instance::PAUSED, paused.clone());
        for _ in 0..OPERATOR_ATTEMPTS {
            let Some(held) = self.0.instance.stored() else {
                break;
            };
            match keep(services.container(), &held, &patch).await? {
                Kept::Written(etag) => {
                    self.0.advance(
                        Instance {
                            paused,
                            ..held.document
                        },
                        etag,
                    );
                    return Ok(());
                }
                // A renewal has changed the version, or this write whose answer was lost.
                Kept::Held(stored) => self.0.advance(stored.document, stored.etag),
                Kept::Lost => break,
            }
        }
        Err(Error::LockLost(
            "another runtime took it, or it was deleted",
        ))
    }

    /// Releases the lock without a commit.
    pub(crate) async fn release(self, services: &Services) {
        release::unlock(&services.store, &self.0).await;
    }
}

/// Locks an instance, or creates it locked. Its queued messages stay queued, except cancellations,
/// which the commit consumes. Waits for a runtime that drops messages of the ended instance.
///
/// # Errors
/// Fails when a runtime holds the lock for too long.
pub(crate) async fn exclusively(
    services: &Services,
    instance_id: &str,
    execution_id: u64,
) -> Result<ExclusiveTurn> {
    for _ in 0..OPERATOR_ATTEMPTS {
        if let Some(turn) = attempt(services, instance_id, execution_id).await? {
            return Ok(turn);
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
    Err(Error::Retryable(format!(
        "a runtime holds instance `{instance_id}`; try again"
    )))
}

async fn attempt(
    services: &Services,
    instance_id: &str,
    execution_id: u64,
) -> Result<Option<ExclusiveTurn>> {
    let store = &services.store;
    let loaded = load::load(store, instance_id, execution_id).await?;
    let Some(mut loaded) = load::complete(store, loaded).await? else {
        return Ok(None);
    };
    // A cancellation of the ended course must not cancel the new one.
    loaded.messages.retain(|message| {
        matches!(
            message.content.item(),
            Some(WorkItem::CancelInstance { .. })
        )
    });
    if loaded.is_held(store.now()) {
        return Ok(None);
    }
    let token = store.new_lock_token();
    let turn = lock::lock(store, loaded, token, OPERATOR_LOCK).await?;
    Ok(turn.map(|turn| {
        ExclusiveTurn(Turn {
            rejected: None,
            ..turn
        })
    }))
}
