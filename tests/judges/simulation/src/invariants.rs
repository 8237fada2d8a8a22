//! Invariants of the whole store, which are checked every minute, whatever the nodes do: what is held
//! back has a paused instance, every lock has an end, every intent has a target and a deadline.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cdb_chaos::{CONTAINER, DATABASE, Documents, keep_trying};
use cdb_client::{Bootstrap, ContainerClient, Error};
use cdb_model::{Query, Stored};
use cdb_provider::documents::{
    Durable, Instance, InstanceKey, NEVER, OrchestratorItem, OutboxIntent, PAUSED, WorkerItem,
};
use cdb_tests::instance_id;
use tokio::time::{sleep, timeout};

use crate::cluster::Cluster;
use crate::network::Outside;
use crate::node::client;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_secs(60);

/// The time that the store has to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longer than any lock, also by a clock that is wrong.
const LONGEST_LOCK: Duration = Duration::from_secs(600);

/// Clocks of nodes are wrong by less.
const WRONG: Duration = Duration::from_secs(60);

/// The most problems that are kept.
const MOST: usize = 20;

/// The judge of a cluster's store.
#[derive(Clone, Debug)]
pub(crate) struct Invariants {
    cluster: Arc<Cluster>,
    problems: Arc<Mutex<BTreeSet<String>>>,
}

impl Invariants {
    pub(crate) fn new(cluster: &Arc<Cluster>) -> Self {
        Self {
            cluster: cluster.clone(),
            problems: Arc::default(),
        }
    }

    /// Returns the problems so far.
    pub(crate) fn problems(&self) -> Vec<String> {
        let problems = self.problems.lock();
        let problems = problems.unwrap_or_else(PoisonError::into_inner);
        problems.iter().take(MOST).cloned().collect()
    }

    /// Looks until it is dropped.
    pub(crate) async fn watch(self) {
        let mut splits = self.cluster.splits();
        let mut store = self.open().await;
        loop {
            sleep(PAUSE).await;
            if splits != self.cluster.splits() {
                splits = self.cluster.splits();
                store = self.open().await;
            }
            // A store that fails has nothing to look at.
            let found = timeout(PATIENCE, look(&store)).await;
            let found = found.unwrap_or(Ok(Vec::new())).unwrap_or_default();
            let problems = self.problems.lock();
            problems
                .unwrap_or_else(PoisonError::into_inner)
                .extend(found);
        }
    }

    async fn open(&self) -> ContainerClient<Durable> {
        let network = &self.cluster.network;
        let outside = client(network, &Outside(network.clone()));
        let database = outside.database(DATABASE);
        let opened = keep_trying(|| database.bootstrap::<Documents>(CONTAINER, Bootstrap::Skip));
        let opened = opened.await.expect("the container exists");
        opened.view().latest_committed()
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
            held if is_held_back(held) => {
                if !is_left(store, &instance, &found).await? {
                    continue;
                }
                "is held back, and its instance is not paused"
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

fn is_held_back(document: &Durable) -> bool {
    match document {
        Durable::OrchestratorItem(message) => message.visible_at == PAUSED,
        Durable::WorkerItem(activity) => activity.visible_at == PAUSED,
        _ => false,
    }
}

/// Returns whether the instance of an item that is held back is not paused, while the item stays as
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
