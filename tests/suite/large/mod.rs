//! Turns of any size: they commit whole or not at all, are read back exactly, and leave nothing
//! behind.
//!
//! The sizes here are small, so that they fit into the normal run. The full sizes are ignored
//! tests; docs/reliability.md has the command.

mod fan_out;
mod long;
mod throttled;
mod under_way;

use std::time::{Duration, Instant};

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::{Chunk, Durable, NEVER, OrchestratorItem, Spill, WorkerItem};
use cdb_provider::model::Query;
use cdb_provider::model::query::Filter;
use cdb_tests::Backend;
use duroxide::providers::{ExecutionMetadata, Provider, ProviderAdmin, PruneOptions, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Event, EventKind, OrchestrationContext, OrchestrationRegistry};

use crate::harness::{TestEnv, eventually, finds_turn, next_activity, next_turn, until_some};
use crate::network::{CREATE, on_network};
use crate::work_items::{self, activity_of, metadata_of, start_of, with_input};

/// Longer than the largest turn takes: no test here waits until a lock expires.
const LOCK: Duration = Duration::from_secs(24 * 3600);

/// The shortest age at which a provider removes chunks without a commit.
const ORPHANED: Duration = Duration::from_secs(240);

/// A text of `size` bytes, with escaped and multi-byte characters.
fn text(bytes: usize) -> String {
    let mut text = "line \"1\"\n\\ 😀 é ".repeat(bytes / 21 + 1);
    let mut end = bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

fn start(instance: &str, input: String) -> WorkItem {
    with_input(start_of(instance, "Large"), input)
}

fn activity(instance: &str, id: u64, input: String) -> WorkItem {
    with_input(activity_of(instance, id, None), input)
}

fn event(instance: &str, id: u64, kind: EventKind) -> Event {
    Event::with_event_id(id, instance, 1, None, kind)
}

fn started(instance: &str, input: String) -> Event {
    event(instance, 1, work_items::started("Large", input))
}

fn named() -> ExecutionMetadata {
    metadata_of("Large")
}

/// The commit of one turn.
#[derive(Clone, Default)]
struct Left {
    events: Vec<Event>,
    activities: Vec<WorkItem>,
    messages: Vec<WorkItem>,
    metadata: ExecutionMetadata,
}

/// Fetches the next turn of the only instance and commits it. Returns the history before the turn.
async fn turn(provider: &CosmosDBProvider, left: Left) -> Vec<Event> {
    let (item, token, _) = next_turn(provider, LOCK).await;
    assert_eq!(item.history_error, None);
    commit(provider, &token, item.execution_id, &left).await;
    item.history
}

/// Commits a turn, as often as the runtime would try.
async fn commit(provider: &CosmosDBProvider, token: &str, execution_id: u64, left: &Left) {
    for _ in 0..20 {
        let left = left.clone();
        let committed = provider.ack_orchestration_item(
            token,
            execution_id,
            left.events,
            left.activities,
            left.messages,
            left.metadata,
            Vec::new(),
        );
        match committed.await {
            Ok(()) => return,
            Err(error) if error.is_retryable() => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the turn is never committed");
}

async fn enqueue(provider: &CosmosDBProvider, message: WorkItem) {
    let enqueued = provider.enqueue_for_orchestrator(message, None);
    enqueued.await.expect("the message is queued");
}

/// Counts the documents that only large turns need: chunks and open `Spill` documents.
async fn litter(provider: &CosmosDBProvider) -> (u64, u64) {
    let container = provider.container();
    let chunks = container.query(Query::<Chunk>::across_partitions().count());
    let open = Spill::CREATED_AT.lt(NEVER);
    let spills = container.query(Query::<Spill>::across_partitions().filter(open).count());
    let sum = |counts: Vec<u64>| counts.into_iter().sum();
    (
        sum(chunks.all().await.expect("a count")),
        sum(spills.all().await.expect("a count")),
    )
}

/// Returns all documents of an instance.
async fn documents(provider: &CosmosDBProvider, instance: &str) -> usize {
    let everything = Query::<Durable>::in_partition(instance).filter(Filter::all());
    let found = provider.container().query(everything).all().await;
    found.expect("the partition can be read").len()
}

/// Waits for the result of a large orchestration. Does not use the client, which reads the whole
/// history ten times a second.
async fn end_of(env: &TestEnv, instance: &str) -> String {
    until_some(async || {
        tokio::time::sleep(Duration::from_millis(500)).await;
        // There is no instance before its first turn is committed.
        let info = env.provider.get_instance_info(instance).await.ok()?;
        assert_ne!(info.status, "Failed", "{:?}", info.output);
        (info.status == "Completed").then(|| info.output.unwrap_or_default())
    })
    .await
}

fn echo() -> ActivityRegistry {
    let echo = |_: ActivityContext, input: String| async move { Ok(input) };
    ActivityRegistry::builder().register("Echo", echo).build()
}

/// Passes its input through an activity and a child, and returns it in its second execution.
fn passing_on() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Large", async |ctx: OrchestrationContext, input: String| {
            let result = ctx.schedule_activity("Echo", input).await?;
            let result = ctx.schedule_sub_orchestration("Child", result).await?;
            if ctx.execution_id() == 1 {
                return ctx.continue_as_new(result).await;
            }
            Ok(result)
        })
        .register(
            "Child",
            |_: OrchestrationContext, input: String| async move { Ok(input) },
        )
        .build()
}

async fn a_value_goes_through_everything(bytes: usize) {
    let env = TestEnv::start(echo(), passing_on()).await;
    let value = text(bytes);
    let begun = Instant::now();
    env.begin("large", "Large", &*value).await;
    let output = end_of(&env, "large").await;
    println!("{bytes} bytes went round in {:?}", begun.elapsed());
    assert!(output == value, "the value has changed");
    let provider = &env.provider;
    let info = ok!(provider.get_instance_info("large"));
    assert!(
        info.output.as_deref() == Some(&*value),
        "the output has changed"
    );

    // The rest belongs to histories and outputs.
    eventually(async || litter(provider).await.1 == 0).await;
    let (before, _) = litter(provider).await;
    let oldest = PruneOptions {
        keep_last: Some(1),
        ..PruneOptions::default()
    };
    ok!(provider.prune_executions("large", oldest));
    let (after, _) = litter(provider).await;
    assert!(after < before, "{after} of {before} parts are left");
    let tree = provider.get_instance_tree("large").await.expect("a tree");
    ok!(provider.delete_instances_atomic(&tree.all_ids, false));
    for instance in &tree.all_ids {
        assert_eq!(documents(provider, instance).await, 0, "{instance}");
    }
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_larger_than_a_document_passes_every_step() {
    a_value_goes_through_everything(1_100_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; docs/reliability.md"]
async fn a_value_of_sixteen_megabytes_passes_every_step() {
    a_value_goes_through_everything(16 * 1024 * 1024).await;
}

/// One turn that sends `count` activities and `count` children, sets 150 keys, and has a long
/// history.
fn everything_at_once(instance: &str, count: u64) -> Left {
    let key = |n: u64| EventKind::KeyValueSet {
        key: format!("key-{n}"),
        value: text(8_000),
        last_updated_at_ms: n,
    };
    let mut events = vec![started(instance, text(100_000))];
    events.extend((2..152).map(|n| event(instance, n, key(n))));
    Left {
        events,
        activities: (1..=count)
            .map(|id| activity(instance, id, text(50)))
            .collect(),
        messages: (1..=count)
            .map(|n| start(&format!("child-{n}"), text(50)))
            .collect(),
        metadata: named(),
    }
}

async fn count<D>(provider: &CosmosDBProvider) -> u64
where
    D: cdb_provider::model::container::MemberOf<Durable>
        + cdb_provider::model::query::QueriedIn<Durable>,
{
    let counted = provider
        .container()
        .query(Query::<D>::across_partitions().count());
    counted.all().await.expect("a count").into_iter().sum()
}

async fn a_turn_commits_at_once(sent: u64) {
    let backend = Backend::start().await;
    let provider = backend.provider().await;
    enqueue(&provider, start("large", text(100_000))).await;
    // The gate for older runtimes has queue items too.
    let gate = count::<WorkerItem>(&provider).await;
    let left = everything_at_once("large", sent);
    let begun = Instant::now();
    turn(&provider, left.clone()).await;
    println!(
        "committed {sent} activities and {sent} children in {:?}",
        begun.elapsed()
    );
    eventually(async || {
        count::<WorkerItem>(&provider).await == gate + sent
            && count::<OrchestratorItem>(&provider).await == gate + sent
    })
    .await;
    println!("delivered after {:?}", begun.elapsed());
    let fresh = backend.provider().await;
    assert!(fresh.read("large").await.expect("a history") == left.events);
    let keys = fresh.get_kv_all_values("large").await.expect("the keys");
    assert_eq!(keys.len(), 150);
    let one = ok!(fresh.get_kv_value("large", "key-77"));
    assert_eq!(one, Some(text(8_000)));
    ok!(fresh.delete_instance("large", true));
    assert_eq!(documents(&fresh, "large").await, 0);
    backend.stop().await;
}

#[tokio::test]
async fn a_turn_with_hundreds_of_messages_commits_at_once() {
    a_turn_commits_at_once(300).await;
}

#[tokio::test]
#[ignore = "takes a minute; docs/reliability.md"]
async fn a_turn_with_ten_thousand_messages_commits_at_once() {
    a_turn_commits_at_once(5_000).await;
}

/// A turn that needs chunks of every kind, and few requests.
fn spilled(instance: &str) -> Left {
    Left {
        events: vec![started(instance, text(1_400_000))],
        activities: vec![activity(instance, 1, text(1_200_000))],
        messages: vec![start("child", text(1_200_000))],
        metadata: named(),
    }
}

/// Waits until another process has removed all chunks, which have no commit.
async fn without_orphans(backend: &Backend) -> CosmosDBProvider {
    let heir = heir(backend).await;
    assert_eq!(litter(&heir).await, (0, 0));
    heir
}

/// Starts another process and waits until it has removed the chunks without a commit.
async fn heir(backend: &Backend) -> CosmosDBProvider {
    let heir = backend.provider_with(|config| {
        config.orphan_age = ORPHANED;
        config.reconciler_interval = ORPHANED / 4;
    });
    let heir = heir.await;
    // The second sweep finds them, half a second late.
    tokio::time::sleep(ORPHANED + Duration::from_secs(5)).await;
    heir
}

#[tokio::test(start_paused = true)]
async fn a_large_turn_survives_a_lost_answer_at_any_write() {
    // One round more than there are writes, so that the last round has no fault.
    for lost in 0..9 {
        let backend = Backend::start_simulated().await;
        let emulator = or_skip!(backend.emulator(), "needs the emulator");
        let provider = backend.provider().await;
        enqueue(&provider, start("large", String::new())).await;
        for kind in [OperationKind::Create, OperationKind::Batch] {
            emulator.inject(Fault::once(Effect::DropAnswer).on(kind).after(lost));
        }
        let left = spilled("large");
        turn(&provider, left.clone()).await;
        emulator.clear_faults();
        assert!(provider.read("large").await.expect("a history") == left.events);
        let (item, token, _) = next_activity(&provider, LOCK, None).await;
        assert!(item == left.activities[0], "the activity has changed");
        provider.ack_work_item(&token, None).await.expect("it ends");
        let (child, token, _) = next_turn(&provider, LOCK).await;
        assert!(child.messages == left.messages, "the child has changed");
        let end =
            provider.ack_orchestration_item(&token, 1, vec![], vec![], vec![], named(), vec![]);
        end.await.expect("it commits");
        for instance in ["large", "child"] {
            ok!(provider.delete_instance(instance, true));
        }
        drop(provider);
        without_orphans(&backend).await;
        backend.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_chunks_and_commit_leaves_nothing_behind() {
    let backend = Backend::start_simulated().await;
    let emulator = or_skip!(backend.emulator(), "only the emulator fails on demand");
    let provider = backend.provider().await;
    enqueue(&provider, start("large", String::new())).await;
    let (_, token, _) = next_turn(&provider, LOCK).await;
    // The process ends after writing all chunks and before the commit.
    emulator.inject(Fault::always(Effect::DropRequest).on(OperationKind::Batch));
    let left = spilled("large");
    let commit = provider.ack_orchestration_item(
        &token,
        1,
        left.events,
        left.activities,
        left.messages,
        left.metadata,
        vec![],
    );
    tokio::select! {
        ended = commit => panic!("it has ended: {ended:?}"),
        () = eventually(async || litter(&provider).await.0 == 6) => {}
    }
    drop(provider);
    emulator.clear_faults();
    let heir = without_orphans(&backend).await;
    assert_eq!(heir.read("large").await.expect("a history"), []);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_creation_that_arrives_twice_removes_no_committed_chunks() {
    let (backend, network, provider) = or_skip!(on_network().await);
    enqueue(&provider, start("large", String::new())).await;
    let (_, token, _) = next_turn(&provider, LOCK).await;
    // A large commit creates its spill first.
    network.repeat(CREATE, Duration::from_secs(1));
    let left = spilled("large");
    commit(&provider, &token, 1, &left).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    drop(provider);
    let heir = heir(&backend).await;
    assert!(heir.read("large").await.expect("a history") == left.events);
    let (item, ..) = next_activity(&heir, LOCK, None).await;
    assert!(item == left.activities[0], "the activity has changed");
    backend.stop().await;
}
