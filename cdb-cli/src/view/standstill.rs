//! What the running instances of a list wait for.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_model::{Query, Timestamp};
use cdb_provider::documents::{Durable, FIRST_DUE, Instance, OrchestratorItem, WorkerItem};
use futures::{StreamExt as _, TryStreamExt as _, stream, try_join};
use serde::Serialize;

use super::history::Lane;
use super::lock::locked_until;
use super::waits;
use crate::exit::Failure;
use crate::orchestrations::Orchestrations;
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
    Timer,
    Activity,
    /// An activity is due, and no worker fetches it.
    Worker,
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
            due_at: None,
            others: 0,
        }
    }
}

/// The instances with due work that no process has fetched.
struct Unserved {
    messages: BTreeSet<String>,
    activities: BTreeSet<String>,
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
    let unserved = &Unserved::read(&orchestrations.container).await?;
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
    Ok(open.into_iter().next().map(|first| WaitsFor {
        kind: match first.kind {
            Lane::Timer => Kind::Timer,
            Lane::Event => Kind::Event,
            Lane::SubOrchestration => Kind::SubOrchestration,
            Lane::Activity if unserved.activities.contains(&instance.instance_id) => Kind::Worker,
            Lane::Activity | Lane::Turn => Kind::Activity,
        },
        name: Some(first.name).filter(|name| !name.is_empty() && first.due_at.is_none()),
        due_at: first.due_at,
        others,
    }))
}

impl Unserved {
    async fn read(container: &ContainerClient<Durable>) -> Result<Self, Failure> {
        let before = container.now() - UNSERVED;
        let messages = Query::<OrchestratorItem>::across_partitions()
            .filter(OrchestratorItem::VISIBLE_AT.between(FIRST_DUE, before))
            .order_by(OrchestratorItem::BY_DUE)
            .limit(SAMPLE)
            .values(OrchestratorItem::INSTANCE_ID);
        let activities = Query::<WorkerItem>::across_partitions()
            .filter(WorkerItem::VISIBLE_AT.between(FIRST_DUE, before))
            .order_by(WorkerItem::BY_DUE)
            .limit(SAMPLE)
            .values(WorkerItem::INSTANCE_ID);
        let (messages, activities) = try_join!(
            container.query(messages).all(),
            container.query(activities).all()
        )?;
        Ok(Self {
            messages: messages.into_iter().collect(),
            activities: activities.into_iter().collect(),
        })
    }
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Paused => "paused",
            Kind::Held => "held",
            Kind::Busy => "busy",
            Kind::Runtime => "waits for a runtime",
            Kind::Event => "event",
            Kind::Timer => "timer",
            Kind::Activity => "activity",
            Kind::Worker => "waits for a worker:",
            Kind::SubOrchestration => "sub-orchestration",
        })?;
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
