//! Queued events are received once and in their order, however many wait and whatever the
//! orchestration does with its subscriptions.

use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::OperationKind;
use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::{InstanceKey, OrchestratorItem};
use cdb_provider::model::{Document as _, Query};
use cdb_tests::Backend;
use duroxide::providers::WorkItem;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{Client, Either2, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use tokio::time::sleep;

use crate::harness::{end_within, eventually, no_activities};
use crate::warnings::Warnings;

const SECOND: Duration = Duration::from_secs(1);

/// The most queued events that wait in an execution.
const MAX_UNTAKEN: usize = 64;

/// A store in simulated time with a client, and a runtime with a provider of its own.
struct Desk {
    backend: Backend,
    provider: CosmosDBProvider,
    client: Client,
    runtime: Arc<Runtime>,
}

impl Desk {
    async fn open() -> Self {
        let backend = Backend::start_simulated().await;
        let provider = backend.provider().await;
        let runtime = runtime_on(backend.provider().await).await;
        Self::with(backend, provider, runtime)
    }

    /// Opens a store with a single process, which knows the messages that it queues.
    async fn open_alone() -> Self {
        let backend = Backend::start_simulated().await;
        let provider = backend.provider().await;
        let runtime = runtime_on(provider.clone()).await;
        Self::with(backend, provider, runtime)
    }

    fn with(backend: Backend, provider: CosmosDBProvider, runtime: Arc<Runtime>) -> Self {
        Self {
            client: Client::new(Arc::new(provider.clone())),
            runtime,
            provider,
            backend,
        }
    }

    /// Kills the runtime, and starts one that knows nothing.
    async fn replace_runtime(&mut self) {
        let next = runtime_on(self.backend.provider().await).await;
        let killed = std::mem::replace(&mut self.runtime, next);
        killed.shutdown(Some(0)).await;
    }

    async fn begin(&self, instance: &str, orchestration: &str, input: &str) {
        let begun = self
            .client
            .start_orchestration(instance, orchestration, input);
        begun.await.expect("it is started");
    }

    async fn queue(&self, instance: &str, data: impl Into<String>) {
        ok!(self.client.enqueue_event(instance, "Orders", data));
    }

    /// Queues these events, and the last one.
    async fn queue_all(&self, instance: &str, events: impl IntoIterator<Item = String>) {
        for data in events {
            self.queue(instance, data).await;
        }
        self.queue(instance, "last").await;
    }

    async fn raise(&self, instance: &str, event: &str) {
        ok!(self.client.raise_event(instance, event, ""));
    }

    /// Returns the number of messages that wait in the store. Consumed ones leave a trace that expires.
    async fn in_store(&self, instance: &str) -> usize {
        let waiting = Query::<OrchestratorItem>::in_partition(instance);
        let waiting = ok!(self.provider.container().query(waiting).all());
        let waiting = waiting.iter().filter(|item| item.document.ttl.is_none());
        waiting.count()
    }

    /// Waits until the store has these messages, and the execution has the others.
    async fn until_in_store(&self, instance: &str, count: usize) {
        eventually(async || self.in_store(instance).await == count).await;
    }

    async fn output(&self, instance: &str) -> String {
        let ended = end_within(&self.client, instance, SECOND * 600);
        match ended.await {
            Ok(OrchestrationStatus::Completed { output, .. }) => output,
            other => panic!("`{instance}` has not completed: {other:?}"),
        }
    }

    async fn close(self) {
        self.runtime.shutdown(None).await;
        self.backend.stop().await;
    }
}

async fn runtime_on(provider: CosmosDBProvider) -> Arc<Runtime> {
    let provider = Arc::new(provider);
    let options = RuntimeOptions::default();
    Runtime::start_with_options(provider, no_activities(), takers(), options).await
}

fn takers() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Rounds", rounds)
        .register("Held", held)
        .register("AtOnce", at_once)
        .register("Alike", alike)
        .register("Idle", idle)
        .register("Gated", gated)
        .register("Slow", slow)
        .build()
}

/// Takes one event in each execution, until the last one. The input has those of former executions.
async fn rounds(ctx: OrchestrationContext, taken: String) -> Result<String, String> {
    let event = ctx.dequeue_event("Orders").await;
    if event == "last" {
        return Ok(taken);
    }
    ctx.continue_as_new(format!("{taken} {event}")).await
}

/// Takes no event before it is raised one, and continues as `rounds`.
async fn held(ctx: OrchestrationContext, taken: String) -> Result<String, String> {
    if taken.is_empty() {
        ctx.schedule_wait("Go").await;
    }
    rounds(ctx, taken).await
}

/// Takes all events in one execution, after it is raised one. With an input, it continues first.
async fn at_once(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    if input != "taking" {
        ctx.schedule_wait("Go").await;
    }
    if input == "continue" {
        return ctx.continue_as_new("taking").await;
    }
    let mut taken = String::new();
    loop {
        let event = ctx.dequeue_event("Orders").await;
        if event == "last" {
            return Ok(taken);
        }
        taken = format!("{taken} {event}");
    }
}

/// Ends when it is raised an event, and takes none of the queue.
async fn idle(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    Ok(ctx.schedule_wait("Go").await)
}

/// Takes an event every 20 seconds.
async fn slow(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    loop {
        ctx.schedule_timer(SECOND * 20).await;
        ctx.dequeue_event("Orders").await;
    }
}

/// Takes an event of another queue.
async fn gated(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    Ok(ctx.dequeue_event("Gate").await)
}

/// Takes one event in each execution, and counts them. The input is the kind of a subscription that
/// takes nothing, and the number of events.
async fn alike(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let (kind, count) = input.rsplit_once(' ').expect("a kind and a number");
    let count: u32 = count.parse().expect("a number");
    if count == 0 {
        ctx.schedule_wait("Go").await;
    }
    let timer = ctx.schedule_timer(Duration::from_millis(1));
    let first = ctx.dequeue_event("Orders");
    let (event, _open) = match kind {
        "never awaited" => (first.await, Some(ctx.dequeue_event("Orders"))),
        "beaten" => {
            let second = ctx.dequeue_event("Orders");
            (ctx.select2(first, second).await.into_tuple().1, None)
        }
        "too late" => match ctx.select2(timer, first).await {
            Either2::First(()) => (ctx.dequeue_event("Orders").await, None),
            Either2::Second(taken) => (taken, None),
        },
        "dropped" => {
            drop(first);
            let event = ctx.dequeue_event("Orders").await;
            (event, Some(ctx.dequeue_event("Orders")))
        }
        other => return Err(format!("unknown kind `{other}`")),
    };
    if event == "last" {
        return Ok(count.to_string());
    }
    ctx.continue_as_new(format!("{kind} {}", count + 1)).await
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

/// duroxide carries 100 events to the next execution, and drops the others.
#[tokio::test(start_paused = true)]
async fn more_events_than_an_execution_may_carry_are_received_in_their_order() {
    let desk = Desk::open().await;
    for name in ["Rounds", "Held"] {
        desk.begin(name, name, "").await;
        desk.queue_all(name, numbers(130)).await;
        if name == "Held" {
            desk.until_in_store(name, 131 - MAX_UNTAKEN).await;
            desk.raise(name, "Go").await;
        }
        let output = desk.output(name).await;
        let taken: Vec<_> = output.split_whitespace().collect();
        assert_eq!(taken, numbers(130), "{name}");
    }
    desk.close().await;
}

/// duroxide fails a turn that takes 100 events.
#[tokio::test(start_paused = true)]
async fn any_number_of_events_can_be_taken_without_a_pause() {
    let desk = Desk::open().await;
    for (input, count) in [("", 62), ("", 130), ("continue", 99), ("continue", 130)] {
        let name = format!("{input}{count}");
        desk.begin(&name, "AtOnce", input).await;
        desk.queue_all(&name, numbers(count)).await;
        let left = (count + 1).saturating_sub(MAX_UNTAKEN);
        desk.until_in_store(&name, left).await;
        desk.raise(&name, "Go").await;
        let output = desk.output(&name).await;
        let taken: Vec<_> = output.split_whitespace().collect();
        assert_eq!(taken, numbers(count), "{name}");
    }
    desk.close().await;
}

#[tokio::test(start_paused = true)]
async fn equal_events_are_counted_beside_subscriptions_that_take_none() {
    let desk = Desk::open().await;
    for kind in ["never awaited", "beaten", "too late", "dropped"] {
        desk.begin(kind, "Alike", &format!("{kind} 0")).await;
        desk.queue_all(kind, vec!["equal".to_owned(); 120]).await;
        desk.until_in_store(kind, 121 - MAX_UNTAKEN).await;
        desk.raise(kind, "Go").await;
        assert_eq!(desk.output(kind).await, "120", "{kind}");
    }
    desk.close().await;
}

/// The runtime looks for messages while the start is missing, and sees some of the events only.
#[tokio::test(start_paused = true)]
async fn events_before_the_start_are_received_in_their_order() {
    let desk = Desk::open().await;
    for (number, pause) in [1, 20, 500, 10_000].into_iter().enumerate() {
        let name = format!("early-{number}");
        desk.queue(&name, "0").await;
        sleep(Duration::from_millis(pause)).await;
        desk.queue(&name, "1").await;
        desk.begin(&name, "Rounds", "").await;
        sleep(SECOND * 5).await;
        desk.queue(&name, "last").await;
        assert_eq!(desk.output(&name).await, " 0 1", "after {pause} ms");
    }
    desk.close().await;
}

/// More events wait in front of another message than a load reads, and more than a page holds.
#[tokio::test(start_paused = true)]
async fn other_messages_pass_events_for_which_there_is_no_room() {
    let mut desk = Desk::open().await;
    desk.begin("i", "Idle", "").await;
    let body = "x".repeat(20_000);
    for _ in 0..220 {
        desk.queue("i", body.clone()).await;
    }
    desk.until_in_store("i", 220 - MAX_UNTAKEN).await;
    // The next runtime finds all of them at once.
    desk.replace_runtime().await;
    sleep(SECOND * 5).await;
    assert_eq!(desk.in_store("i").await, 220 - MAX_UNTAKEN);
    let raised = tokio::time::Instant::now();
    desk.raise("i", "Go").await;
    desk.output("i").await;
    assert!(raised.elapsed() < SECOND * 5, "{:?}", raised.elapsed());
    desk.close().await;
}

#[tokio::test(start_paused = true)]
async fn an_awaited_event_passes_those_for_which_there_is_no_room() {
    let desk = Desk::open().await;
    desk.begin("i", "Gated", "").await;
    desk.queue_all("i", numbers(MAX_UNTAKEN + 5)).await;
    desk.until_in_store("i", 6).await;
    // The pauses after which the full execution is read are long by then.
    sleep(SECOND * 150).await;
    ok!(desk.client.enqueue_event("i", "Gate", "open"));
    let ended = end_within(&desk.client, "i", SECOND * 2).await;
    let ended = ended.expect("it ends in time");
    assert!(
        matches!(&ended, OrchestrationStatus::Completed { output, .. } if output == "open"),
        "{ended:?}"
    );
    desk.close().await;
}

#[tokio::test(start_paused = true)]
async fn events_are_taken_in_their_order_as_soon_as_there_is_room() {
    for alone in [true, false] {
        let desk = if alone {
            Desk::open_alone().await
        } else {
            Desk::open().await
        };
        desk.begin("i", "AtOnce", "").await;
        for data in numbers(130) {
            desk.queue("i", data).await;
        }
        // Longer than several pauses of a full execution.
        sleep(SECOND * 200).await;
        assert_eq!(desk.in_store("i").await, 130 - MAX_UNTAKEN);
        let raised = tokio::time::Instant::now();
        desk.raise("i", "Go").await;
        desk.queue_all("i", ["130".to_owned()]).await;
        let output = desk.output("i").await;
        assert!(raised.elapsed() < SECOND * 10, "{:?}", raised.elapsed());
        let taken: Vec<_> = output.split_whitespace().collect();
        assert_eq!(taken, numbers(131));
        desk.close().await;
    }
}

/// No poll finds the events of a full execution. The second one is written late: its sender had no answer.
#[tokio::test(start_paused = true)]
async fn events_of_another_process_are_not_passed_while_there_is_no_room() {
    let desk = Desk::open_alone().await;
    let other = desk.backend.provider().await;
    desk.begin("i", "AtOnce", "").await;
    for data in numbers(MAX_UNTAKEN + 1) {
        desk.queue("i", data).await;
    }
    sleep(SECOND * 100).await;
    let written = other.container().now();
    sleep(SECOND * 30).await;
    let client = Client::new(Arc::new(other.clone()));
    ok!(client.enqueue_event("i", "Orders", "other"));
    let item = WorkItem::QueueMessage {
        instance: "i".to_owned(),
        name: "Orders".to_owned(),
        data: "late".to_owned(),
    };
    let late = OrchestratorItem::new(&item, "late".to_owned(), written, written);
    let late = late.expect("a message");
    ok!(other.container().run(late.create()));
    desk.queue("i", "own").await;
    desk.raise("i", "Go").await;
    desk.queue("i", "last").await;
    let output = desk.output("i").await;
    let taken: Vec<_> = output.split_whitespace().skip(MAX_UNTAKEN + 1).collect();
    assert_eq!(taken, ["late", "other", "own"], "{output}");
    drop(other);
    desk.close().await;
}

#[tokio::test(start_paused = true)]
async fn events_that_wait_for_room_cost_few_requests() {
    const TIME: Duration = Duration::from_secs(120);
    let desk = Desk::open().await;
    let emulator = or_skip!(desk.backend.emulator(), "needs the emulator");
    let requests = async || {
        emulator.reset_requests();
        sleep(TIME).await;
        let counts = emulator.requests().counts;
        let queries = counts.get(&OperationKind::Query).copied().unwrap_or(0);
        (queries, counts.values().sum::<u64>() - queries)
    };
    sleep(SECOND * 30).await;
    let (queries, others) = requests().await;
    desk.begin("i", "Idle", "").await;
    for _ in 0..MAX_UNTAKEN + 5 {
        desk.queue("i", "x").await;
    }
    sleep(SECOND * 30).await;
    let (more_queries, more_others) = requests().await;
    // The instance is read again after a pause of 1 to 60 s.
    let bound = queries + queries / 20 + 10;
    assert!(more_queries <= bound, "{more_queries} instead of {queries}");
    assert!(
        more_others <= others + 10,
        "{more_others} instead of {others}"
    );
    desk.close().await;
}

/// While events wait in the store, each one that is taken makes room for the next. The runtime reads
/// them once, and then only what has come since (`docs/limits.md`).
#[tokio::test(start_paused = true)]
async fn an_event_taken_slowly_costs_the_same_however_many_wait_in_the_store() {
    const TAKEN: u32 = 10;
    let desk = Desk::open().await;
    let charged = async |instance: &str| {
        let key = InstanceKey::new(instance);
        let found = desk.provider.container().read(&key).await;
        let found = found.expect("it is read").expect("it exists");
        found.document.request_units.expect("a charge")
    };
    let mut costs = Vec::new();
    for count in [40, 80, 400] {
        let name = format!("slow-{count}");
        desk.begin(&name, "Slow", "").await;
        for _ in 0..count {
            desk.queue(&name, "x").await;
        }
        sleep(SECOND * 70).await;
        let before = charged(&name).await;
        sleep(SECOND * 20 * TAKEN).await;
        let cost = (charged(&name).await - before) / f64::from(TAKEN);
        println!("{count} events: {cost:.0} RU for each one taken, with a timer");
        costs.push(cost);
        ok!(desk.client.delete_instance(&name, true));
    }
    let [in_history, few, many] = costs[..] else {
        panic!("three costs: {costs:?}");
    };
    assert!(in_history < 65.0 && few < 150.0, "{costs:?}");
    assert!(many < 1.3 * few, "{costs:?}");
    desk.close().await;
}

#[tokio::test(start_paused = true)]
async fn events_that_come_after_the_end_are_named() {
    let warnings = Warnings::default();
    let _kept = tracing::subscriber::set_default(warnings.clone());
    let desk = Desk::open().await;
    desk.begin("i", "Idle", "").await;
    sleep(SECOND).await;
    desk.raise("i", "Go").await;
    desk.output("i").await;
    desk.queue("i", "x").await;
    desk.until_in_store("i", 0).await;
    eventually(async || !warnings.with("Orders").is_empty()).await;
    assert!(warnings.with("Orders")[0].contains("instance=\"i\""));
    desk.close().await;
}
