//! A judge of due turns, activities and messages between instances. It reads the store from
//! outside of the nodes, while they work.
//!
//! A due item on a partition that answers is handed out within B, and a turn that is handed out
//! ends or is handed out again within L ([`Bounds`]). Faults that can delay the item stop the
//! clock.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use cdb_chaos::CONTAINER;
use cdb_client::ContainerClient;
use cdb_client::partitions::PhysicalPartitionId;
use cdb_model::stored::Unreadable;
use cdb_model::{Query, Stored};
use cdb_provider::documents::{
    Durable, FIRST_DUE, Instance, InstanceKey, OrchestratorItem, OutboxIntent, WorkerItem,
};
use cdb_tests::instance_id;
use duroxide::providers::WorkItem;
use tokio::time::{sleep, timeout};

use crate::bounds::Bounds;
use crate::caller::{Caller, Seen};
use crate::cluster::Cluster;
use crate::excuses::Scope;
use crate::guarded::Guarded;
use crate::judge::{Judge, MOST_PROBLEMS, open_existing, outside_client};
use crate::judges::Place;
use crate::network::MEMBERS;
use crate::virtual_time::{elapsed, since_start};
use crate::workload::Workload;

/// The shortest pause between two looks.
const PAUSE: Duration = Duration::from_secs(5);

/// The requests of the nodes for each request of the judge, at least.
const SHARE: u64 = 100;

/// The time that a partition has to answer the judge.
const PATIENCE: Duration = Duration::from_secs(1);

/// A lock beyond this time from now is not that of a turn: a dead provider holds the instance.
const LONG_LOCK: Duration = Duration::from_secs(30);

/// The problem of each instance.
#[derive(Default)]
pub(super) struct Waiting(Guarded<BTreeMap<String, String>>);

/// What the judge reads with. A split makes it stale.
struct Eyes<'a> {
    cluster: &'a Cluster,
    bounds: Bounds,
    problems: &'a Guarded<BTreeMap<String, String>>,
    documents: ContainerClient<Durable>,
    /// The containers of workloads.
    others: Vec<(&'static str, ContainerClient<Durable>)>,
    splits: u64,
}

/// A due item.
struct Item {
    instance: String,
    kind: &'static str,
    due: Duration,
    range: PhysicalPartitionId,
    /// The physical partition of the message's target.
    target: Option<PhysicalPartitionId>,
    bound: Duration,
    is_start: bool,
}

#[async_trait]
impl Judge for Waiting {
    fn name(&self) -> &'static str {
        "waiting"
    }

    async fn watch(&self, cluster: &Cluster) {
        let handling = &cluster.shared.handling;
        // When each instance was last seen under the lock of a dead provider.
        let mut held = BTreeMap::new();
        let mut eyes = Eyes::open(cluster, &self.0).await;
        let mut next = 0;
        loop {
            sleep(PAUSE).await;
            handling.judge_waiting(eyes.bounds.message_handed_out);
            if eyes.splits != cluster.splits() {
                eyes = Eyes::open(cluster, &self.0).await;
            }
            let requests = cluster.network.trace().count();
            if requests >= next {
                let asked = eyes.look(&mut held).await;
                next = requests + SHARE * asked;
            }
        }
    }

    async fn judge(&self, _: &Caller, _: &Seen) -> Result<Vec<String>, String> {
        Ok(self
            .0
            .lock()
            .values()
            .take(MOST_PROBLEMS)
            .cloned()
            .collect())
    }
}

impl<'a> Eyes<'a> {
    async fn open(cluster: &'a Cluster, problems: &'a Guarded<BTreeMap<String, String>>) -> Self {
        let (splits, client) = (cluster.splits(), outside_client(cluster));
        let documents = open_existing(&client, CONTAINER).await;
        let mut others = Vec::new();
        for name in cluster.shared.containers() {
            others.push((name, open_existing(&client, name).await));
        }
        Self {
            cluster,
            bounds: Bounds::of(cluster.profile.node.pace),
            problems,
            documents,
            others,
            splits,
        }
    }

    /// Looks at the store once. Returns the number of requests.
    async fn look(&self, held: &mut BTreeMap<String, Duration>) -> u64 {
        let ranges = self.documents.physical_partitions().await;
        let ranges = ranges.unwrap_or_default();
        let mut items = Vec::new();
        for range in &ranges {
            let found = timeout(PATIENCE, self.due(range)).await;
            items.extend(found.unwrap_or_default());
        }
        let mut asked = ranges.len() as u64;
        let roster = self.range_of((CONTAINER, MEMBERS.to_owned())).await;
        for item in &items {
            let since_due = item.due..elapsed();
            if self.waited(item, roster.as_ref(), &since_due) <= item.bound {
                continue;
            }
            let problem = if item.kind == "turn" {
                asked += 1;
                self.judge_turn(item, roster.as_ref(), held).await
            } else {
                Some(format!("no lock since {:.0} s", item.due.as_secs_f64()))
            };
            if let Some(why) = problem {
                self.report(item, &why);
            }
        }
        self.place_messages().await;
        asked
    }

    /// Tells the judge of handlers where their messages are stored.
    async fn place_messages(&self) {
        let handling = &self.cluster.shared.handling;
        let mut ranges = BTreeMap::new();
        for place in handling.places() {
            if let Some(range) = self.range_of(place.clone()).await {
                ranges.insert(place, range.to_string());
            }
        }
        handling.set_ranges(ranges);
    }

    /// Returns the items of a physical partition that have been due for B.
    async fn due(&self, range: &PhysicalPartitionId) -> Vec<Item> {
        let before = self.documents.now() - self.bounds.handed_out;
        let query = Query::<Durable>::across_partitions().filter(
            OrchestratorItem::VISIBLE_AT
                .between(FIRST_DUE, before)
                .within()
                | WorkerItem::VISIBLE_AT.between(FIRST_DUE, before).within()
                | OutboxIntent::CREATED_AT.between(FIRST_DUE, before).within(),
        );
        let query = self.documents.query(query).in_physical_partition(range);
        let query = query.row_by_row();
        let rows: Vec<Result<Stored<Durable>, Unreadable>> = query.all().await.unwrap_or_default();
        let mut items = Vec::new();
        for row in rows.into_iter().flatten() {
            items.extend(self.item(range, row.document).await);
        }
        items
    }

    async fn item(&self, range: &PhysicalPartitionId, document: Durable) -> Option<Item> {
        let instance = instance_id(&document)?.to_owned();
        let explains = |it: &dyn Workload| it.explains_wait(&instance, &document);
        if self.cluster.shared.any(explains) {
            return None;
        }
        let Bounds {
            handed_out,
            activity_handed_out,
            ..
        } = self.bounds;
        let item = |instance: String, kind, due, bound| Item {
            instance,
            kind,
            due: since_start(due),
            range: range.clone(),
            target: None,
            bound,
            is_start: false,
        };
        let item = match document {
            Durable::OrchestratorItem(message) => {
                let content = serde_json::from_str(message.work_item.header());
                let is_start = matches!(content, Ok(WorkItem::StartOrchestration { .. }));
                let turn = item(message.instance_id, "turn", message.visible_at, handed_out);
                Item { is_start, ..turn }
            }
            Durable::WorkerItem(activity) => item(
                activity.instance_id,
                "activity",
                activity.visible_at,
                activity_handed_out,
            ),
            Durable::OutboxIntent(intent) => {
                let target = (CONTAINER, intent.target_instance_id);
                let target = self.range_of(target).await;
                let (instance, created) = (intent.instance_id, intent.created_at);
                let item = item(instance, "message to another instance", created, handed_out);
                Item { target, ..item }
            }
            _ => return None,
        };
        Some(item)
    }

    /// Returns how long an item has waited during `span`, without the time of faults that can delay
    /// it.
    fn waited(
        &self,
        item: &Item,
        roster: Option<&PhysicalPartitionId>,
        span: &Range<Duration>,
    ) -> Duration {
        let own = [Some(&item.range), item.target.as_ref(), roster];
        let concerns = |scope: &Scope| match scope {
            Scope::Everything => true,
            Scope::Partition(container, sick) => {
                let is_sick = |range: &&PhysicalPartitionId| range.to_string() == *sick;
                *container == CONTAINER && own.iter().flatten().any(is_sick)
            }
            Scope::Loads => item.kind == "turn",
            Scope::Node(_) => false,
        };
        let excused = self.cluster.shared.excuses.time(span, concerns);
        span.end.saturating_sub(span.start).saturating_sub(excused)
    }

    /// Judges a turn whose oldest message has been due for B. Returns what is wrong.
    async fn judge_turn(
        &self,
        item: &Item,
        roster: Option<&PhysicalPartitionId>,
        held: &mut BTreeMap<String, Duration>,
    ) -> Option<String> {
        let key = InstanceKey::new(&*item.instance);
        let read = timeout(PATIENCE, self.documents.read(&key)).await;
        let instance: Option<Instance> = read.ok()?.ok()?.map(|stored| stored.document);
        // Messages for an instance that does not exist wait for its start.
        if instance.is_none() && !item.is_start {
            return None;
        }
        let now = elapsed();
        let lock = instance.as_ref().and_then(|it| it.locked_until);
        let lock = lock.map(since_start).unwrap_or_default();
        if lock > now + LONG_LOCK {
            held.insert(item.instance.clone(), lock);
        }
        let begin = held.get(&item.instance).copied().unwrap_or_default();
        let mut begin = item.due.max(begin);
        let written = instance.map_or(Duration::ZERO, |it| since_start(it.updated_at));
        let has_backlog = |it: &dyn Workload| it.has_backlog(&item.instance);
        if self.cluster.shared.any(has_backlog) {
            begin = begin.max(written);
        }
        let ended = self.bounds.turn_ended;
        if self.waited(item, roster, &(begin..now)) > ended {
            return Some(format!("no commit since {:.0} s", begin.as_secs_f64()));
        }
        let free = begin.max(lock).max(written);
        let waited = self.waited(item, roster, &(free..now));
        let is_late = lock <= now && waited > self.bounds.handed_out;
        is_late.then(|| format!("no lock since {:.0} s", free.as_secs_f64()))
    }

    fn report(&self, item: &Item, why: &str) {
        let now = elapsed();
        let faults = self.cluster.shared.excuses.of(item.due, now);
        let Item {
            instance,
            kind,
            due,
            range,
            ..
        } = item;
        let (due, now) = (due.as_secs(), now.as_secs());
        let problem = format!(
            "{instance}: at {now} s its {kind} in partition {range} is due since {due} s, with {why}; \
             faults: {faults:?}"
        );
        let mut problems = self.problems.lock();
        problems.entry(instance.clone()).or_insert(problem);
    }

    /// Returns the physical partition of a place.
    async fn range_of(&self, (container, key): Place) -> Option<PhysicalPartitionId> {
        let key = key.as_str().into();
        let other = self.others.iter().find(|(name, _)| *name == container);
        let container = other.map_or(&self.documents, |(_, other)| other);
        container.physical_partition_of(&key).await.ok().flatten()
    }
}
