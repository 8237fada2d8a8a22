//! Measures orchestrations and their parts, one after another. The runtime needs no poll for its
//! own starts and polls too rarely to count. The idle rows have the cost of polls.

use std::sync::Arc;
use std::time::Duration;

use cdb_client::throughput::Usage;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig, MembershipConfig};
use cdb_tests::Backend;
use duroxide::providers::PruneOptions;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use tokio::sync::mpsc;

use crate::{Cost, Failure, Table, cost_of};

const RARELY: Duration = Duration::from_secs(60);
/// Repetitions of each measurement.
const TIMES: u32 = 10;
/// How long an idle runtime is measured.
const IDLE: u32 = 12;
const MEGABYTE: usize = 1_000_000;

/// A runtime and the end of every orchestration in it.
struct Stage {
    store: Arc<CosmosDBProvider>,
    client: Client,
    ended: mpsc::UnboundedReceiver<()>,
    runtime: Arc<Runtime>,
    started: u32,
}

impl Stage {
    async fn open(store: CosmosDBProvider) -> Self {
        let store = Arc::new(store);
        let (end, ended) = mpsc::unbounded_channel();
        let orchestrations = orchestrations_that_tell(&end);
        let runtime = Runtime::start_with_store(store.clone(), activities(), orchestrations).await;
        Self {
            client: Client::new(store.clone()),
            store,
            ended,
            runtime,
            started: 0,
        }
    }

    fn usage(&self) -> impl Fn() -> Usage + use<> {
        let container = self.store.container().clone();
        move || container.usage()
    }

    async fn start(&mut self, name: &str, input: impl Into<String>) -> Result<String, Failure> {
        self.started += 1;
        let instance = format!("costs-{}", self.started);
        let client = &self.client;
        client.start_orchestration(&*instance, name, input).await?;
        Ok(instance)
    }

    async fn run(&mut self, name: &str, input: impl Into<String>) -> Result<String, Failure> {
        let instance = self.start(name, input).await?;
        self.ended.recv().await.ok_or("the runtime has ended")?;
        Ok(instance)
    }

    /// The cost of one orchestration of this kind.
    async fn cost(&mut self, name: &str, input: &str) -> Result<Cost, Failure> {
        self.cost_in(TIMES, name, input).await
    }

    /// The average cost of `times` orchestrations.
    async fn cost_in(&mut self, times: u32, name: &str, input: &str) -> Result<Cost, Failure> {
        let usage = self.usage();
        let runs = async {
            for _ in 0..times {
                self.run(name, input).await?;
            }
            Ok(())
        };
        Ok(cost_of(usage, runs).await?.per(times))
    }
}

fn activities() -> ActivityRegistry {
    let echo = |_: ActivityContext, input: String| async move { Ok(input) };
    let swallow = |_: ActivityContext, _: String| async move { Ok(String::new()) };
    let produce = |_: ActivityContext, input: String| async move {
        Ok("x".repeat(input.parse().map_err(|_| "no number")?))
    };
    ActivityRegistry::builder()
        .register("Echo", echo)
        .register("Swallow", swallow)
        .register("Produce", produce)
        .build()
}

/// Orchestrations that report their end: status queries of a client would be counted.
fn orchestrations_that_tell(end: &mpsc::UnboundedSender<()>) -> OrchestrationRegistry {
    let end = end.clone();
    let one = move |ctx: OrchestrationContext, input: String| {
        let end = end.clone();
        async move {
            let (what, count) = input.split_once(' ').ok_or("no `what count`")?;
            let count: usize = count.parse().map_err(|_| "no number")?;
            if what == "again" && count > 1 {
                return ctx.continue_as_new(format!("again {}", count - 1)).await;
            }
            parts(&ctx, what, count).await?;
            end.send(()).map_err(|error| error.to_string())?;
            Ok(String::new())
        }
    };
    let child = |_: OrchestrationContext, _: String| async move { Ok(String::new()) };
    OrchestrationRegistry::builder()
        .register("Cost", one)
        .register("Child", child)
        .build()
}

/// Repeats a part of this kind.
async fn parts(ctx: &OrchestrationContext, what: &str, count: usize) -> Result<(), String> {
    match what {
        "fan-out" => {
            let all = (0..count).map(|_| ctx.schedule_activity("Echo", ""));
            ctx.join(all.collect()).await;
            return Ok(());
        }
        "megabytes-in" => {
            let input = "x".repeat(count * MEGABYTE);
            ctx.schedule_activity("Swallow", input).await?;
            return Ok(());
        }
        "megabytes-out" => {
            let bytes = (count * MEGABYTE).to_string();
            ctx.schedule_activity("Produce", bytes).await?;
            return Ok(());
        }
        _ => {}
    }
    for number in 0..count {
        match what {
            "timer" => ctx.schedule_timer(Duration::from_millis(20)).await,
            "event" => drop(ctx.schedule_wait("go").await),
            "sub" => drop(ctx.schedule_sub_orchestration("Child", "").await?),
            "session" => drop(ctx.schedule_activity_on_session("Echo", "", "one").await?),
            "kv" | "status" | "activity" => {
                if what == "kv" {
                    ctx.set_kv_value(format!("key-{number}"), "value");
                } else if what == "status" {
                    ctx.set_custom_status(number.to_string());
                }
                ctx.schedule_activity("Echo", "").await?;
            }
            _ => {}
        }
    }
    Ok(())
}

pub(crate) async fn orchestrations(table: &mut Table) -> Result<(), Failure> {
    let backend = Backend::start_with(|config| {
        config.reconciler_interval = RARELY;
        (config.min_poll_interval, config.max_poll_interval) = (RARELY, RARELY);
    })
    .await;
    let mut stage = Stage::open(backend.provider().await).await;
    stage.cost("Cost", "nothing 0").await?; // the first polls, and connections
    let bare = stage.cost("Cost", "nothing 0").await?;
    table.row("a start, its only turn and the end", bare);
    let chain = stage.cost("Cost", "activity 10").await?;
    table.row(
        "an activity, with the turn that follows it",
        chain.minus(bare).per(10),
    );
    for (what, input, count, beside) in [
        ("an activity among 20 at a time", "fan-out 20", 20, bare),
        ("a timer, with its turn", "timer 5", 5, bare),
        ("a sub-orchestration that does nothing", "sub 5", 5, bare),
        ("continue-as-new", "again 10", 9, bare),
        ("a value set, in an existing turn", "kv 10", 10, chain),
        (
            "a custom status, in an existing turn",
            "status 10",
            10,
            chain,
        ),
    ] {
        let cost = stage.cost("Cost", input).await?.minus(beside);
        table.row(what, cost.per(count));
    }
    events(&mut stage, bare, table).await?;
    questions(&mut stage, table).await?;
    removal(&mut stage, table).await?;
    stage.runtime.shutdown(None).await;
    drop(stage.store);
    backend.stop().await;
    Ok(())
}

async fn events(stage: &mut Stage, bare: Cost, table: &mut Table) -> Result<(), Failure> {
    let usage = stage.usage();
    let raised = async {
        let instance = stage.start("Cost", format!("event {TIMES}")).await?;
        for _ in 0..TIMES {
            tokio::time::sleep(Duration::from_millis(200)).await; // the instance waits by then
            stage.client.raise_event(&*instance, "go", "").await?;
        }
        stage.ended.recv().await.ok_or("the runtime has ended")?;
        Ok(())
    };
    let cost = cost_of(usage, raised).await?.minus(bare);
    table.row("an event raised, with its turn", cost.per(TIMES));

    let mut waiting = Vec::new();
    for _ in 0..TIMES {
        waiting.push(stage.start("Cost", "event 1").await?);
    }
    tokio::time::sleep(Duration::from_secs(2)).await; // they all wait by then
    let cancelled = async {
        for instance in waiting {
            stage.client.cancel_instance(instance, "enough").await?;
        }
        Ok(())
    };
    let cost = cost_of(stage.usage(), cancelled).await?;
    table.row("a cancellation, with its turn", cost.per(TIMES));
    Ok(())
}

async fn questions(stage: &mut Stage, table: &mut Table) -> Result<(), Failure> {
    let instance = stage.run("Cost", "kv 1").await?;
    cost_of(stage.usage(), async { Ok(()) }).await?; // its last turn is committed
    let client = &stage.client;
    let asked = async {
        for _ in 0..TIMES {
            client.get_orchestration_status(&instance).await?;
        }
        Ok(())
    };
    let cost = cost_of(stage.usage(), asked).await?;
    table.row("a status query", cost.per(TIMES));
    let asked = async {
        for _ in 0..TIMES {
            client.get_kv_value(&instance, "key-0").await?;
        }
        Ok(())
    };
    let cost = cost_of(stage.usage(), asked).await?;
    table.row("a query for a value", cost.per(TIMES));
    Ok(())
}

async fn removal(stage: &mut Stage, table: &mut Table) -> Result<(), Failure> {
    let mut ended = Vec::new();
    for _ in 0..TIMES {
        ended.push(stage.run("Cost", "activity 1").await?);
    }
    let again = stage.run("Cost", "again 21").await?;
    cost_of(stage.usage(), async { Ok(()) }).await?; // the last turns are committed
    let client = &stage.client;
    let deleted = async {
        for instance in ended {
            client.delete_instance(&instance, false).await?;
        }
        Ok(())
    };
    let cost = cost_of(stage.usage(), deleted).await?;
    table.row("deletion of an instance of one activity", cost.per(TIMES));
    let options = PruneOptions {
        keep_last: None,
        completed_before: None,
    };
    let pruned = async { Ok(client.prune_executions(&again, options).await?) };
    let cost = cost_of(stage.usage(), pruned).await?;
    table.row("an execution pruned, among 20", cost.per(20));

    let purged = async {
        let mut purge = stage.store.purge_ended(Duration::ZERO);
        while purge.next_slice().await?.is_some() {}
        Ok(purge.purged().instances_deleted)
    };
    let (before, usage) = (stage.usage()(), stage.usage());
    let gone = purged.await.map_err(|error: Failure| error)?;
    let gone = u32::try_from(gone)?;
    let cost = Cost::between(&before, &usage());
    table.row("an instance purged, among many", cost.per(gone));
    Ok(())
}

/// Polls find activities of a session and large activities, so these are measured with default
/// polls.
pub(crate) async fn polled(table: &mut Table) -> Result<(), Failure> {
    let backend = Backend::start_with(|config| config.reconciler_interval = RARELY).await;
    let mut stage = Stage::open(backend.provider().await).await;
    let one = stage.cost("Cost", "activity 1").await?;
    let chain = stage.cost_in(3, "Cost", "activity 10").await?;
    let session = stage.cost_in(3, "Cost", "session 10").await?;
    table.row(
        "an activity of a session, more than another",
        session.minus(chain).per(10),
    );
    for (what, input, count) in [
        ("1 MB of an activity's input", "megabytes-in 1", 1),
        ("1 MB of an activity's result", "megabytes-out 1", 1),
        ("1 MB of a result of 5 MB", "megabytes-out 5", 5),
    ] {
        let cost = stage.cost_in(2, "Cost", input).await?.minus(one);
        table.row(what, cost.per(count));
    }
    stage.runtime.shutdown(None).await;
    drop(stage.store);
    backend.stop().await;
    Ok(())
}

pub(crate) async fn idle(table: &mut Table) -> Result<(), Failure> {
    let alone = idle_second(None).await?;
    table.row("an idle runtime, a second", alone);
    let member = idle_second(Some(MembershipConfig::default())).await?;
    table.row("membership, a second", member.minus(alone));
    Ok(())
}

async fn idle_second(membership: Option<MembershipConfig>) -> Result<Cost, Failure> {
    // The suites' backend searches its outbox more often than a program does.
    let backend = Backend::start_with(|config| {
        config.reconciler_interval = CosmosDBProviderConfig::default().reconciler_interval;
        config.membership = membership;
    })
    .await;
    let stage = Stage::open(backend.provider().await).await;
    tokio::time::sleep(Duration::from_secs(5)).await; // until polls have slowed down
    let usage = stage.usage();
    let before = usage();
    tokio::time::sleep(Duration::from_secs(IDLE.into())).await;
    let cost = Cost::between(&before, &usage()).per(IDLE);
    stage.runtime.shutdown(None).await;
    stage.store.leave().await;
    drop(stage.store);
    backend.stop().await;
    Ok(cost)
}
