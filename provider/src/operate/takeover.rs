//! Takes over the locks of a failed member, so that its work need not wait until they expire.
//!
//! The member that removed the failed one from the roster searches for locks whose tokens begin
//! with the failed incarnation, and releases each by a conditional write. The attempts stay
//! counted, as after an expiry. The failed process may still run: a released lock has another
//! version, so the service refuses its commits. Locks that are not found expire.

use cdb_coordination::membership::FailedMember;
use cdb_model::{Query, Stored};
use futures::StreamExt as _;
use futures::stream;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::error::Result;
use crate::queue::{CONCURRENCY, Services};
use crate::queue::{activities, instances};
use crate::stored::documents::{Durable, Instance, WorkerItem};
use crate::stored::is_token_of;
use crate::timing::{TAKEOVER_DEADLINE, TAKEOVER_PAUSE, TAKEOVER_SEARCHES};

/// Takes over the locks of each failed member that this process removes. Ends with the provider.
pub(crate) async fn run(services: Services, mut failed: broadcast::Receiver<FailedMember>) {
    let closing = services.store.tasks.closing();
    while let Some(member) = closing.run_until_cancelled(failed.recv()).await {
        match member {
            Ok(member) => {
                services.spawn(|services| async move { take_over(&services, &member).await });
            }
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

async fn take_over(services: &Services, failed: &FailedMember) {
    let member = &failed.name;
    match tokio::time::timeout(
        TAKEOVER_DEADLINE,
        release_all(services, &failed.incarnation),
    )
    .await
    {
        Ok(Ok(locks)) => tracing::info!(%member, locks, "took over the locks of a failed member"),
        Ok(Err(error)) => {
            tracing::warn!(%member, %error, "cannot find the locks of a failed member; they will expire");
        }
        Err(_) => {
            tracing::warn!(%member, "taking over the locks of a failed member takes too long; the others will expire");
        }
    }
}

/// Releases all locks of this incarnation, except those in partitions that do not answer. Returns
/// their number.
async fn release_all(services: &Services, incarnation: &str) -> Result<usize> {
    let (mut count, mut searches) = (0, 0);
    loop {
        searches += 1;
        let is_complete = match find(services, incarnation).await {
            Ok((locked, is_complete)) => {
                count += locked.len();
                release(services, locked).await;
                is_complete
            }
            Err(error) if searches == TAKEOVER_SEARCHES => return Err(error),
            Err(error) => {
                tracing::debug!(%error, "cannot search for the locks of a failed member; retrying");
                false
            }
        };
        if is_complete || searches == TAKEOVER_SEARCHES {
            return Ok(count);
        }
        tokio::time::sleep(TAKEOVER_PAUSE).await;
    }
}

async fn release(services: &Services, locked: Vec<Stored<Durable>>) {
    stream::iter(locked)
        .for_each_concurrent(CONCURRENCY, |row| async move {
            match row.document.clone() {
                Durable::Instance(instance) => {
                    instances::take_over(services, &row.map(|_| instance)).await;
                }
                Durable::WorkerItem(item) => {
                    activities::take_over(services, row.map(|_| item)).await;
                }
                _ => {}
            }
        })
        .await;
}

/// Finds the documents that this incarnation has locked. `lockedUntil` is indexed and lock tokens
/// are not, so the query returns all documents that are locked now: at most a few per dispatcher of
/// all members. Returns whether all partitions answered, too.
async fn find(services: &Services, incarnation: &str) -> Result<(Vec<Stored<Durable>>, bool)> {
    let now = Some(services.store.now());
    let instances = Instance::LOCKED_UNTIL.gt(now).within();
    let locked = instances | WorkerItem::LOCKED_UNTIL.gt(now).within();
    let query = Query::<Durable>::across_partitions().filter(locked);
    let run = services.container().query(query).row_by_row();
    let found = run.all_available().await?;
    let mut rows = services.store.corrupt_documents.readable(found.rows);
    rows.retain(|row| {
        let token = match &row.document {
            Durable::Instance(instance) => &instance.lock_token,
            Durable::WorkerItem(item) => &item.lock_token,
            _ => &None,
        };
        token
            .as_deref()
            .is_some_and(|token| is_token_of(token, incarnation))
    });
    Ok((rows, found.is_complete))
}
