//! A judge of due turns, activities and messages between instances. It reads the store from
//! outside of the nodes, while they work.
//!
//! A due item on a partition that answers is handed out within B, and a turn that is handed out
//! ends or is handed out again within L ([`Bounds`]). Faults that can delay the item stop the
//! clock.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cdb_chaos::{CONTAINER, DATABASE, Documents, keep_trying};
use cdb_client::partitions::PhysicalPartitionId;
use cdb_client::{Bootstrap, ContainerClient};
use cdb_model::stored::Unreadable;
use cdb_model::{Query, Stored};
use cdb_provider::documents::{
    Durable, FIRST_DUE, Instance, InstanceKey, OrchestratorItem, OutboxIntent, WorkerItem,
};
use duroxide::providers::WorkItem;
use tokio::time::{sleep, timeout};

use crate::bank::{BANK, Bank};
use crate::blocked::is_unfit;
use crate::bounds::Bounds;
use crate::cluster::Cluster;
use crate::conserved::{has_backlog, is_early};
use crate::excuses::Scope;
use crate::handling::Place;
use crate::limited::{CAPPED, RATED};
use crate::network::{MEMBERS, Outside};
use crate::node::client;
use crate::pauses::PAUSED;
use crate::streams::{STREAMS, StreamDocument};
use crate::virtual_time::{elapsed, since_start};

/// The shortest pause between two looks.
const PAUSE: Duration = Duration::from_secs(5);

/// The requests of the nodes for each request of the judge, at least.
const SHARE: u64 = 100;

/// The time that a partition has to answer the judge.
const PATIENCE: Duration = Duration::from_secs(1);

/// The most problems that are kept.
const MOST: usize = 20;

/// A lock beyond this time from now is not that of a turn: a dead provider holds the instance.
const LONG_LOCK: Duration = Duration::from_secs(30);

/// The judge of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Judge {
    cluster: Arc<Cluster>,
    bounds: Bounds,
    /// The problem of each instance.
    problems: Arc<Mutex<BTreeMap<String, String>>>,
}

/// What the judge reads with. A split makes it stale.
struct Eyes {
    documents: ContainerClient<Durable>,
    streams: ContainerClient<StreamDocument>,
    bank: ContainerClient<Bank>,
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

impl Judge {
    pub(crate) fn new(cluster: &Arc<Cluster>) -> Self {
        Self {
            cluster: cluster.clone(),
            bounds: Bounds::of(cluster.profile.node.pace),
            problems: Arc::default(),
        }
    }

    /// Returns the problems so far.
    pub(crate) fn problems(&self) -> Vec<String> {
        let problems = self.problems.lock();
        let problems = problems.unwrap_or_else(PoisonError::into_inner);
        problems.values().take(MOST).cloned().collect()
    }

    /// Judges until it is dropped.
    pub(crate) async fn watch(self) {
        let handling = self.cluster.shared.handling.clone();
        // When each instance was last seen under the lock of a dead provider.
        let mut held = BTreeMap::new();
        let mut eyes = self.open().await;
        let mut next = 0;
        loop {
            sleep(PAUSE).await;
            handling.judge(self.bounds.message_handed_out);
            if eyes.splits != self.cluster.splits() {
                eyes = self.open().await;
            }
            let requests = self.cluster.network.trace().count();
            if requests >= next {
                let asked = self.look(&eyes, &mut held).await;
                next = requests + SHARE * asked;
            }
        }
    }

    async fn open(&self) -> Eyes {
        let splits = self.cluster.splits();
        let network = &self.cluster.network;
        let outside = client(network, &Outside(network.clone()));
        let database = outside.database(DATABASE);
        let failed = "the containers exist";
        let documents = keep_trying(|| database.bootstrap::<Documents>(CONTAINER, Bootstrap::Skip));
        let documents = documents.await.expect(failed).view();
        let streams = keep_trying(|| database.bootstrap(STREAMS, Bootstrap::Skip)).await;
        let bank = keep_trying(|| database.bootstrap(BANK, Bootstrap::Skip)).await;
        Eyes {
            documents,
            streams: streams.expect(failed),
            bank: bank.expect(failed),
            splits,
        }
    }

    /// Looks at the store once. Returns the number of requests.
    async fn look(&self, eyes: &Eyes, held: &mut BTreeMap<String, Duration>) -> u64 {
        let ranges = eyes
            .documents
            .physical_partitions()
            .await
            .unwrap_or_default();
        let mut items = Vec::new();
        for range in &ranges {
            let found = timeout(PATIENCE, self.due(eyes, range)).await;
            items.extend(found.unwrap_or_default());
        }
        let mut asked = ranges.len() as u64;
        let roster = eyes.range_of((CONTAINER, MEMBERS.to_owned())).await;
        for item in &items {
            let since_due = item.due..elapsed();
            if self.waited(item, roster.as_ref(), &since_due) <= item.bound {
                continue;
            }
            let problem = if item.kind == "turn" {
                asked += 1;
                self.judge_turn(eyes, item, roster.as_ref(), held).await
            } else {
                Some(format!("no lock since {:.0} s", item.due.as_secs_f64()))
            };
            if let Some(why) = problem {
                self.report(item, &why);
            }
        }
        self.place_messages(eyes).await;
        asked
    }

    /// Tells the judge of handlers where their messages are stored.
    async fn place_messages(&self, eyes: &Eyes) {
        let handling = &self.cluster.shared.handling;
        let mut ranges = BTreeMap::new();
        let roster = (STREAMS, MEMBERS.to_owned());
        for place in handling.places().into_iter().chain([roster]) {
            if let Some(range) = eyes.range_of(place.clone()).await {
                ranges.insert(place, range.to_string());
            }
        }
        handling.set_ranges(ranges);
    }

    /// Returns the items of a physical partition that have been due for B.
    async fn due(&self, eyes: &Eyes, range: &PhysicalPartitionId) -> Vec<Item> {
        let before = eyes.documents.now() - self.bounds.handed_out;
        let query = Query::<Durable>::across_partitions().filter(
            OrchestratorItem::VISIBLE_AT
                .between(FIRST_DUE, before)
                .within()
                | WorkerItem::VISIBLE_AT.between(FIRST_DUE, before).within()
                | OutboxIntent::CREATED_AT.between(FIRST_DUE, before).within(),
        );
        let query = eyes
            .documents
            .query(query)
            .in_physical_partition(range)
            .row_by_row();
        let rows: Vec<Result<Stored<Durable>, Unreadable>> = query.all().await.unwrap_or_default();
        let mut items = Vec::new();
        for row in rows.into_iter().flatten() {
            items.extend(self.item(eyes, range, row.document).await);
        }
        items
    }

    async fn item(
        &self,
        eyes: &Eyes,
        range: &PhysicalPartitionId,
        document: Durable,
    ) -> Option<Item> {
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
            // They may be paused: the workload judges that their instances end.
            Durable::OrchestratorItem(OrchestratorItem { instance_id, .. })
            | Durable::WorkerItem(WorkerItem { instance_id, .. })
                if instance_id.starts_with(PAUSED) =>
            {
                return None;
            }
            Durable::OrchestratorItem(message) => {
                let content = serde_json::from_str(message.work_item.header());
                let is_start = matches!(content, Ok(WorkItem::StartOrchestration { .. }));
                let turn = item(message.instance_id, "turn", message.visible_at, handed_out);
                Item { is_start, ..turn }
            }
            // It waits for its limit: the workload judges that it ends.
            Durable::WorkerItem(activity) if is_limited(&activity) => return None,
            Durable::WorkerItem(activity) => item(
                activity.instance_id,
                "activity",
                activity.visible_at,
                activity_handed_out,
            ),
            Durable::OutboxIntent(intent) => {
                let target = (CONTAINER, intent.target_instance_id);
                let target = eyes.range_of(target).await;
                let (instance, created) = (intent.instance_id, intent.created_at);
                let item = item(instance, "message to another instance", created, handed_out);
                Item { target, ..item }
            }
            _ => return None,
        };
        let runs = !is_unfit(&item.instance) && !is_early(&item.instance);
        runs.then_some(item)
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
        let excused = self.cluster.shared.handling.excuses.time(span, concerns);
        span.end.saturating_sub(span.start).saturating_sub(excused)
    }

    /// Judges a turn whose oldest message has been due for B. Returns what is wrong.
    async fn judge_turn(
        &self,
        eyes: &Eyes,
        item: &Item,
        roster: Option<&PhysicalPartitionId>,
        held: &mut BTreeMap<String, Duration>,
    ) -> Option<String> {
        let key = InstanceKey::new(&*item.instance);
        let read = timeout(PATIENCE, eyes.documents.read(&key)).await;
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
        if has_backlog(&item.instance) {
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
        let faults = self.cluster.shared.handling.excuses.of(item.due, now);
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
        let problems = self.problems.lock();
        let mut problems = problems.unwrap_or_else(PoisonError::into_inner);
        problems.entry(instance.clone()).or_insert(problem);
    }
}

impl Eyes {
    /// Returns the physical partition of a place.
    async fn range_of(&self, (container, key): Place) -> Option<PhysicalPartitionId> {
        let key = key.as_str().into();
        let found = match container {
            STREAMS => self.streams.physical_partition_of(&key).await,
            BANK => self.bank.physical_partition_of(&key).await,
            _ => self.documents.physical_partition_of(&key).await,
        };
        found.ok().flatten()
    }
}

fn is_limited(activity: &WorkerItem) -> bool {
    let labels = activity.labels.as_ref();
    labels.is_some_and(|labels| [CAPPED, RATED].contains(&&*labels.activity))
}
