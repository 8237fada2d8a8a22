//! Invariants of the whole store, which are checked every minute, whatever the nodes do: what is held
//! back has a paused instance, every lock has an end, every intent has a target and a deadline.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use cdb_chaos::CONTAINER;
use cdb_client::{ContainerClient, Error};
use cdb_model::{Query, Stored};
use cdb_provider::documents::{
    Durable, Instance, InstanceKey, NEVER, OrchestratorItem, OutboxIntent, PAUSED, WorkerItem,
};
use cdb_tests::instance_id;
use tokio::time::{sleep, timeout};

use crate::caller::{Caller, Seen};
use crate::cluster::Cluster;
use crate::guarded::Guarded;
use crate::judge::{Judge, MOST_PROBLEMS, open_existing, outside_client};

/// The pause between two looks.
const PAUSE: Duration = Duration::from_secs(60);

/// The time that the store has to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longer than any lock, also by a clock that is wrong.
const LONGEST_LOCK: Duration = Duration::from_secs(600);

/// Clocks of nodes are wrong by less.
const WRONG: Duration = Duration::from_secs(60);

/// The judge of a cluster's store.
#[derive(Default)]
pub(super) struct Invariants(Guarded<BTreeSet<String>>);

#[async_trait]
impl Judge for Invariants {
    fn name(&self) -> &'static str {
        "invariants"
    }

    async fn watch(&self, cluster: &Cluster) {
        let mut splits = cluster.splits();
        let open = async || {
            open_existing(&outside_client(cluster), CONTAINER)
                .await
                .latest_committed()
        };
        let mut store = open().await;
        loop {
            sleep(PAUSE).await;
            if splits != cluster.splits() {
                splits = cluster.splits();
                store = open().await;
            }
            // A store that fails has nothing to look at.
            let found = timeout(PATIENCE, look(&store)).await;
            let found = found.unwrap_or(Ok(Vec::new())).unwrap_or_default();
            self.0.lock().extend(found);
        }
    }

    async fn judge(&self, _: &Caller, _: &Seen) -> Result<Vec<String>, String> {
        Ok(self.0.lock().iter().take(MOST_PROBLEMS).cloned().collect())
    }
}

async fn look(store: &ContainerClient<Durable>) -> Result<Vec<String>, Error> {
    let now = store.now();
    let late = now + LONGEST_LOCK;
    let suspects = Query::<Durable>::across_partitions().filter(
        OrchestratorItem::VISIBLE_AT.eq(PAUSED).within()
            | WorkerItem::VISIBLE_AT.eq(PAUSED).within()
            | WorkerItem::LOCKED_UNTIL.gt(late).within()
            | Instance::LOCKED_UNTIL.gt(late).within()
            | OutboxIntent::CREATED_AT.lt(NEVER).within(),
    );
    let suspects = store.query(suspects).row_by_row().all().await?;
    let mut problems = Vec::new();
    for found in suspects.into_iter().flatten() {
        let instance = instance_id(&found.document).unwrap_or_default().to_owned();
        let what = match &found.document {
            Durable::OutboxIntent(intent) if intent.created_at > now + WRONG => "has no deadline",
            Durable::OutboxIntent(intent) if !has_target(intent) => "has no target",
            Durable::OutboxIntent(_) => continue,
            item if is_withheld(item) => {
                if !is_left(store, &instance, &found).await? {
                    continue;
                }
                "is withheld, and its instance is not paused"
            }
            _ => "has a lock without an end",
        };
        problems.push(format!("{instance}: `{}` {what}", found.id.as_str()));
    }
    Ok(problems)
}

fn has_target(intent: &OutboxIntent) -> bool {
    !intent.target_instance_id.is_empty() || intent.more.is_some() || !intent.items.is_empty()
}

fn is_withheld(document: &Durable) -> bool {
    match document {
        Durable::OrchestratorItem(message) => message.visible_at == PAUSED,
        Durable::WorkerItem(activity) => activity.visible_at == PAUSED,
        _ => false,
    }
}

/// Returns whether the instance of an item that is withheld is not paused, while the item stays as
/// it was found.
async fn is_left(
    store: &ContainerClient<Durable>,
    instance: &str,
    found: &Stored<Durable>,
) -> Result<bool, Error> {
    let owner = store.read(&InstanceKey::new(instance)).await?;
    if owner.is_some_and(|owner| owner.document.paused.is_some()) {
        return Ok(false);
    }
    let query = Query::<Durable>::in_partition(instance);
    let again = store.query(query).row_by_row().all().await?;
    let mut again = again.into_iter().flatten();
    Ok(again.any(|again| again.id == found.id && again.etag == found.etag))
}
