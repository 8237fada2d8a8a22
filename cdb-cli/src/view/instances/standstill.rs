//! What the running instances of a list wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use cdb_model::{Query, Timestamp};
use cdb_provider::documents::{FIRST_DUE, Instance, OrchestratorItem, WorkerItem};
use futures::{StreamExt as _, TryStreamExt as _, stream, try_join};
use serde::Serialize;

use super::history::Lane;
use super::waits;
use crate::container::Orchestrations;
use crate::container::lock::locked_until;
use crate::exit::Failure;
use crate::output::short;

/// Work that is due for longer waits for a runtime or worker: idle ones poll every 1.25 s. Whether none
/// runs or all are busy does not show here; `cdb members` and `cdb queues` tell.
const UNSERVED: Duration = Duration::from_secs(5);

/// The number of oldest due messages and activities that are read.
const SAMPLE: u32 = 200;

/// The number of instances whose histories are read.
const MOST_READ: usize = 50;

/// The number of history documents above which a history is not read: a list must stay cheap.
const MOST_DOCUMENTS: u64 = 4;

/// The number of concurrent reads.
const CONCURRENT: usize = 16;

/// What a running instance waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaitsFor {
    pub kind: Kind,
    /// The name of the event, activity or sub-orchestration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The key of the limit that the activity waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// The time at which a timer fires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// How many other events, timers, activities and sub-orchestrations are open.
    #[serde(skip_serializing_if = "is_zero")]
    pub others: usize,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference to the field"
)]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The kind of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Kind {
    /// An operator has paused the instance.
    Paused,
    /// The code of the runtimes cannot execute the next turn.
    Held,
    /// A runtime executes a turn.
    Busy,
    /// A message is due, and no runtime fetches it.
    Runtime,
    Event,
    /// A queued event.
    Queue,
    Timer,
    Activity,
    /// An activity is due, and no worker fetches it.
    Worker,
    /// All due activities wait for limits.
    Limit,
    SubOrchestration,
}

impl Kind {
    /// Returns whether the instance waits for work. If not, its state says what it waits for.
    pub(crate) fn is_of_work(self) -> bool {
        !matches!(self, Self::Paused | Self::Held)
    }
}

impl WaitsFor {
    fn of(kind: Kind) -> Self {
        Self {
            kind,
            name: None,
            limit: None,
            due_at: None,
            others: 0,
        }
    }
}

/// The instances with due work that no process has fetched.
struct Unserved {
    messages: BTreeSet<String>,
    /// The limit that the oldest activity of an instance waits for; `None` if some wait for no limit.
    activities: BTreeMap<String, Option<String>>,
}

/// Returns what each instance waits for; `None` for one that has ended, that is not among the first
/// 50 running ones, or whose history is long, of unknown length or damaged.
pub(crate) async fn of(
    orchestrations: &Orchestrations,
    instances: &[Instance],
) -> Result<Vec<Option<WaitsFor>>, Failure> {
    let running = instances.iter().filter(|instance| instance.has_more());
    let running: BTreeSet<&str> = running
        .take(MOST_READ)
        .map(|instance| &*instance.instance_id)
        .collect();
    if running.is_empty() {
        return Ok(vec![None; instances.len()]);
    }
    let unserved = &Unserved::read(orchestrations).await?;
    let running = &running;
    let reads = instances.iter().map(|instance| async move {
        if !running.contains(&*instance.instance_id) {
            return Ok(None);
        }
        wait(orchestrations, instance, unserved).await
    });
    // Collected, because a stream of borrowing closures is not `Send`.
    let reads: Vec<_> = reads.collect();
    stream::iter(reads).buffered(CONCURRENT).try_collect().await
}

async fn wait(
    orchestrations: &Orchestrations,
    instance: &Instance,
    unserved: &Unserved,
) -> Result<Option<WaitsFor>, Failure> {
    if instance.paused.is_some() {
        return Ok(Some(WaitsFor::of(Kind::Paused)));
    }
    if instance.held.is_some() {
        return Ok(Some(WaitsFor::of(Kind::Held)));
    }
    if locked_until(instance, orchestrations.container.now()).is_some() {
        return Ok(Some(WaitsFor::of(Kind::Busy)));
    }
    if unserved.messages.contains(&instance.instance_id) && instance.untaken_events.is_none() {
        return Ok(Some(WaitsFor::of(Kind::Runtime)));
    }
    let documents = instance.history_documents;
    if documents.is_none_or(|count| count > MOST_DOCUMENTS) {
        return Ok(None);
    }
    let Some(awaited) = waits::read_if_intact(orchestrations, instance).await? else {
        return Ok(None);
    };
    let open = awaited.waits;
    let others = open.len().saturating_sub(1);
    let activities = unserved.activities.get(&instance.instance_id);
    Ok(open.into_iter().next().map(|first| WaitsFor {
        kind: match first.kind {
            Lane::Timer => Kind::Timer,
            Lane::Event if first.is_queue => Kind::Queue,
            Lane::Event => Kind::Event,
            Lane::SubOrchestration => Kind::SubOrchestration,
            Lane::Activity | Lane::Turn => {
                match activities.filter(|_| first.kind == Lane::Activity) {
                    Some(Some(_)) => Kind::Limit,
                    Some(None) => Kind::Worker,
                    None => Kind::Activity,
                }
            }
        },
        limit: activities
            .filter(|_| first.kind == Lane::Activity)
            .cloned()
            .flatten(),
        name: Some(first.name).filter(|name| !name.is_empty() && first.due_at.is_none()),
        due_at: first.due_at,
        others,
    }))
}

impl Unserved {
    async fn read(orchestrations: &Orchestrations) -> Result<Self, Failure> {
        let container = &orchestrations.container;
        let before = container.now() - UNSERVED;
        let messages = Query::<OrchestratorItem>::across_partitions()
            .filter(OrchestratorItem::VISIBLE_AT.between(FIRST_DUE, before))
            .order_by(OrchestratorItem::BY_DUE)
            .limit(SAMPLE)
            .values(OrchestratorItem::INSTANCE_ID);
        let activities = Query::<WorkerItem>::across_partitions()
            .filter(WorkerItem::VISIBLE_AT.between(FIRST_DUE, before))
            .order_by(WorkerItem::BY_DUE)
            .limit(SAMPLE);
        let (messages, activities) = try_join!(
            container.query(messages).all(),
            container.query(activities).all()
        )?;
        let activities = activities.into_iter().map(|stored| stored.document);
        Ok(Self {
            messages: messages.into_iter().collect(),
            activities: limited(orchestrations, activities.collect()).await?,
        })
    }
}

/// Returns the instances of due activities, each with the limit that its oldest one waits for, or without one if
/// some of them wait for no limit.
async fn limited(
    orchestrations: &Orchestrations,
    activities: Vec<WorkerItem>,
) -> Result<BTreeMap<String, Option<String>>, Failure> {
    if activities.is_empty() {
        return Ok(BTreeMap::new());
    }
    let keys = orchestrations
        .provider
        .observe()
        .used_up(&activities)
        .await?;
    let mut found = BTreeMap::<String, Option<String>>::new();
    for (item, keys) in activities.into_iter().zip(keys) {
        let limit = keys.into_iter().next().map(|limit| limit.key);
        let is_limited = limit.is_some();
        let known = found.entry(item.instance_id).or_insert(limit);
        if !is_limited {
            *known = None;
        }
    }
    Ok(found)
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Paused => "paused",
            Kind::Held => "held",
            Kind::Busy => "busy",
            Kind::Runtime => "waits for a runtime",
            Kind::Event => "event",
            Kind::Queue => "queue",
            Kind::Timer => "timer",
            Kind::Activity => "activity",
            Kind::Worker => "waits for a worker:",
            Kind::Limit => "waits for the limit",
            Kind::SubOrchestration => "sub-orchestration",
        })?;
        if let Some(limit) = &self.limit {
            write!(f, " {}:", short(limit, 40))?;
        }
        if let Some(name) = &self.name {
            write!(f, " {}", short(name, 30))?;
        }
        if let Some(due_at) = self.due_at {
            write!(f, " until {due_at}")?;
        }
        match self.others {
            0 => Ok(()),
            others => write!(f, " +{others}"),
        }
    }
}
