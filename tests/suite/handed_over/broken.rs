//! What a hand-over must not hold up, and what it must not leave behind.

use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::documents::Instance;
use cdb_provider::model::Query;
use cdb_provider::{CosmosDBProviderConfig, HandOver};
use cdb_tests::Backend;
use duroxide::providers::Provider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, Client, Either2, OrchestrationContext, OrchestrationRegistry,
    OrchestrationStatus,
};
use tokio::time::{Instant, sleep, timeout};

use super::stage::{LOCK, MOMENT, Stage};
use crate::harness::{end_within, finds_turn, next_turn};
use crate::network::{ANY, CREATE, Network, READ};
use crate::several::{ack, enqueue, event, run_turn, start, try_ack};
use crate::work_items::start_of;

/// The longest time of a call: twice the deadline of a request.
const CALL: Duration = Duration::from_secs(60);

const SECOND: Duration = Duration::from_secs(1);

/// A client that waits for something else, and does not poll its call meanwhile, must not hold up a turn.
#[tokio::test(start_paused = true)]
async fn a_start_whose_caller_does_not_go_on_holds_no_dispatcher() {
    let handed_over =
        |config: &mut CosmosDBProviderConfig| config.hand_over = HandOver::WithSpareDispatchers;
    let backend = or_skip!(Backend::start_in_simulated_time(handed_over).await);
    let network = Network::default();
    let provider = network.provider(&backend).await.expect("simulated");
    let waits = {
        let provider = provider.clone();
        tokio::spawn(async move { next_turn(&provider, LOCK).await })
    };
    sleep(SECOND).await;
    network.slow_down(CREATE, SECOND * 4 / 5);
    let mut started = Box::pin(provider.enqueue_for_orchestrator(start("new"), None));
    // It is stored now, because the turn takes long.
    let early = timeout(SECOND / 2, &mut started).await;
    assert!(early.is_err(), "it is being stored");
    let (item, token, _) = waits.await.expect("a turn");
    let committed = timeout(CALL, ack(&provider, &item, &token)).await;
    assert!(committed.is_ok(), "the dispatcher is held");
    started.await.expect("it has started");
    let none = backend.provider().await;
    assert!(!finds_turn(&none, LOCK, SECOND * 5).await, "it starts once");
    backend.stop().await;
}

/// How long a start takes while the store throttles all batches and creations.
async fn start_while_throttled(hand_over: HandOver) -> Option<Duration> {
    let stage = Stage::with(0, |config| config.hand_over = hand_over).await?;
    let provider = stage.provider.clone();
    let commits = tokio::spawn(async move {
        let fetched = provider.fetch_orchestration_item(LOCK, CALL * 10, None);
        if let Some((item, token, _)) = fetched.await.expect("fetch") {
            let _late = try_ack(&provider, &item, &token, vec![]).await;
        }
    });
    sleep(MOMENT).await;
    let throttled = Effect::throttled(Duration::from_millis(500));
    let fault = Fault::always(throttled).on(OperationKind::Batch);
    stage.emulator().inject(fault.on(OperationKind::Create));
    let begun = Instant::now();
    let started = stage.start("new");
    let _answer = started.await.expect("no panic");
    let took = begun.elapsed();
    commits.abort();
    stage.backend.stop().await;
    Some(took)
}

#[tokio::test(start_paused = true)]
async fn a_start_waits_no_longer_than_its_deadline_for_a_throttled_commit() {
    let stored = or_skip!(start_while_throttled(HandOver::Never).await);
    let handed_over = start_while_throttled(HandOver::default()).await;
    println!("{stored:?} stored, {handed_over:?} handed over");
    assert!(handed_over <= Some(CALL), "{handed_over:?}");
}

async fn instances_of(stage: &Stage, instance: &str) -> usize {
    let query = Query::<Instance>::in_partition(instance);
    let found = stage.other.container().query(query).all().await;
    found.expect("the partition answers").len()
}

/// An instance whose start is not stored would be pending for ever.
#[tokio::test(start_paused = true)]
async fn an_abandoned_first_turn_of_a_dropped_start_leaves_no_instance() {
    let stage = or_skip!(Stage::with_activities(0).await);
    let (started, (_, token, _)) = stage.taken_start().await;
    started.abort();
    sleep(MOMENT).await;
    let abandoned = stage
        .provider
        .abandon_orchestration_item(&token, None, true);
    let _abandoned = abandoned.await;
    let next = stage.other.fetch_orchestration_item(LOCK, LOCK, None).await;
    let is_started = next.expect("fetch").is_some();
    let left = instances_of(&stage, "new").await;
    assert!(is_started || left == 0, "{left} without a start");
    stage.backend.stop().await;
}

/// Attempts of a turn that its runtime abandons are counted from the first one.
#[tokio::test(start_paused = true)]
async fn abandoned_turns_of_a_completion_are_counted() {
    let stage = or_skip!(Stage::with_activities(1).await);
    let (acknowledged, (_, token, _)) = stage.taken().await;
    stage.abandon(&token, None, false).await;
    acknowledged.await.expect("no panic").expect("it is stored");
    let (_, token, attempt) = next_turn(&stage.provider, LOCK).await;
    assert_eq!(attempt, 2);
    stage.abandon(&token, None, false).await;
    let (_, _, attempt) = next_turn(&stage.provider, LOCK).await;
    assert_eq!(attempt, 3);
    stage.backend.stop().await;
}

/// Both processes begin the first turn; one commits it.
#[tokio::test(start_paused = true)]
async fn an_instance_that_two_processes_start_at_once_begins_once() {
    let stage = or_skip!(Stage::with_activities(0).await);
    let other = stage.other.clone();
    let second = tokio::spawn(async move { next_turn(&other, LOCK).await });
    let first = stage.dispatcher().await;
    let started = stage.start("new");
    let other = stage.other.clone();
    let again = tokio::spawn(async move {
        let start = start_of("new", "Wait");
        other.enqueue_for_orchestrator(start, None).await
    });
    let ((first, token, _), second) = (first.await.expect("a turn"), second.await);
    let (second, second_token, _) = second.expect("a turn");
    ack(&stage.provider, &first, &token).await;
    let twice = try_ack(&stage.other, &second, &second_token, vec![]).await;
    assert!(twice.is_err(), "it has begun");
    started.await.expect("no panic").expect("it has started");
    again.await.expect("no panic").expect("it is there");
    let (item, token, _) = next_turn(&stage.other, LOCK).await;
    assert_eq!((item.history.len(), item.messages.len()), (1, 1));
    ack(&stage.other, &item, &token).await;
    stage.backend.stop().await;
}

/// The process stands still for longer than all locks between the offer and the commit.
#[tokio::test(start_paused = true)]
async fn a_start_of_a_process_that_stands_still_begins_once() {
    let stage = or_skip!(Stage::with_activities(0).await);
    let turn = stage.dispatcher().await;
    let mut started = Box::pin(
        stage
            .provider
            .enqueue_for_orchestrator(start_of("new", "Wait"), None),
    );
    tokio::select! {
        biased;
        ended = &mut started => panic!("{ended:?}"),
        () = sleep(Duration::ZERO) => {}
    }
    let (item, token, _) = turn.await.expect("a turn");
    // Nothing of this process goes on.
    enqueue(&stage.other, start("new")).await;
    sleep(LOCK * 2).await;
    run_turn(&stage.other, LOCK).await;
    let late = try_ack(&stage.provider, &item, &token, vec![]).await;
    assert!(late.is_err(), "it has begun");
    started.await.expect("it is there");
    stage.backend.stop().await;
}

/// A turn that has completions of several activities, one of which was taken over, gives the others back at once.
#[tokio::test(start_paused = true)]
async fn a_lost_activity_delays_no_completion_of_others() {
    let stage = or_skip!(Stage::with_activities(2).await);
    let lock = SECOND * 2;
    let first = stage.activity_for(lock).await;
    let second = stage.activity_for(LOCK).await;
    sleep(lock.saturating_sub(MOMENT * 5)).await;
    enqueue(&stage.other, event("i")).await;
    let running = next_turn(&stage.provider, LOCK).await;
    let next = stage.dispatcher().await;
    let (lost, kept) = (stage.acknowledge(first), stage.acknowledge(second));
    sleep(MOMENT).await;
    stage.commit(&running, None).await.expect("it is committed");
    let turn = next.await.expect("a turn");
    sleep(MOMENT * 10).await;
    let fetched = stage.other.fetch_work_item(
        LOCK,
        Duration::ZERO,
        None,
        &duroxide::providers::TagFilter::Any,
    );
    let taken = fetched.await.expect("fetch");
    println!(
        "{} messages, taken {}",
        turn.0.messages.len(),
        taken.is_some()
    );
    let begun = Instant::now();
    let committed = stage.commit(&turn, None).await;
    let kept = kept.await.expect("no panic");
    kept.expect("it is stored or consumed");
    let _lost = lost.await.expect("no panic");
    if committed.is_err() {
        let turn = next_turn(&stage.provider, LOCK).await;
        assert_eq!(turn.0.messages.len(), 1);
        stage.commit(&turn, None).await.expect("it is committed");
    }
    assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
    stage.backend.stop().await;
}

async fn step(_: ActivityContext, millis: String) -> Result<String, String> {
    sleep(Duration::from_millis(millis.parse().expect("a number"))).await;
    Ok(millis)
}

async fn chain(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let mut results = Vec::new();
    for time in ["1", "7", "0"] {
        results.push(ctx.schedule_activity("Step", time).await?);
    }
    Ok(format!("{input}:{}", results.concat()))
}

/// Activities that lose a race, and are cancelled while they end.
async fn race(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    for time in ["3", "5", "8"] {
        let activity = ctx.schedule_activity("Step", time);
        let other = ctx.schedule_activity("Step", "5");
        match ctx.select2(activity, other).await {
            Either2::First(done) | Either2::Second(done) => drop(done?),
        }
    }
    Ok(input)
}

async fn again(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let left: u64 = input.parse().expect("a number");
    let late = ctx.schedule_activity("Step", "4");
    let first = ctx.schedule_activity("Step", "3");
    match ctx.select2(first, late).await {
        Either2::First(done) | Either2::Second(done) => drop(done?),
    }
    if left > 0 {
        return ctx.continue_as_new((left - 1).to_string()).await;
    }
    Ok("over".to_owned())
}

async fn parent(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let children = (0..3).map(|_| ctx.schedule_sub_orchestration("Chain", &*input));
    let results = ctx.join(children.collect::<Vec<_>>()).await;
    let results: Result<Vec<_>, _> = results.into_iter().collect();
    Ok(results?.join(","))
}

async fn runtime(backend: &Backend, network: &Network, policy: HandOver) -> (Arc<Runtime>, Client) {
    let provider = network.provider_with(backend, |config| config.hand_over = policy);
    let provider = Arc::new(provider.await.expect("simulated"));
    let activities = ActivityRegistry::builder().register("Step", step).build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Chain", chain)
        .register("Race", race)
        .register("Again", again)
        .register("Parent", parent)
        .build();
    let options = RuntimeOptions {
        orchestration_concurrency: 4,
        worker_concurrency: 4,
        ..RuntimeOptions::default()
    };
    let runtime =
        Runtime::start_with_options(provider.clone(), activities, orchestrations, options);
    (runtime.await, Client::new(provider))
}

/// The kinds of instances, with their inputs and outputs.
const KINDS: [(&str, &str, &str); 4] = [
    ("Chain", "c", "c:170"),
    ("Race", "r", "r"),
    ("Again", "3", "over"),
    ("Parent", "p", "p:170,p:170,p:170"),
];

/// Starts instances of kinds, and returns how long all take.
async fn all_take(
    policy: HandOver,
    runtimes: usize,
    kinds: &[(&str, &str, &str)],
    each: usize,
) -> Option<Duration> {
    let backend = Backend::start_in_simulated_time(|_| {}).await?;
    let mut sites = Vec::new();
    for _ in 0..runtimes {
        let network = Network::default();
        let (runtime, client) = runtime(&backend, &network, policy.clone()).await;
        network.slow_down(ANY, Duration::from_millis(5));
        sites.push((network, runtime, client));
    }
    sleep(SECOND * 3).await;
    let begun = Instant::now();
    let all = kinds
        .iter()
        .flat_map(|kind| (0..each).map(move |it| (it, kind)));
    let starts = all.clone().map(async |(number, (kind, input, _))| {
        let client = &sites[number % runtimes].2;
        let started = client.start_orchestration(format!("{kind}-{number}"), *kind, *input);
        started.await.expect("it is started");
    });
    futures::future::join_all(starts).await;
    let watcher = Client::new(Arc::new(backend.provider().await));
    for (number, (kind, _, expected)) in all {
        let name = format!("{kind}-{number}");
        let ended = end_within(&watcher, &name, SECOND * 300).await;
        let Ok(OrchestrationStatus::Completed { output, .. }) = &ended else {
            panic!("{name}: {ended:?}");
        };
        assert_eq!(output, expected, "{name}");
    }
    let took = begun.elapsed();
    for (_, runtime, _) in sites {
        runtime.shutdown(Some(100)).await;
    }
    backend.stop().await;
    Some(took)
}

#[tokio::test(start_paused = true)]
async fn all_kinds_of_instances_end_as_fast_as_without_hand_overs() {
    for (runtimes, each) in [(1, 12), (2, 12)] {
        let stored = all_take(HandOver::Never, runtimes, &KINDS, each).await;
        let Some(stored) = stored else { return };
        let took = all_take(HandOver::default(), runtimes, &KINDS, each).await;
        println!("{runtimes} runtimes, {each} of each: {stored:?} stored, {took:?} handed over");
        assert!(took <= Some(stored * 12 / 10), "{took:?}, not {stored:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_single_instance_ends_as_fast_as_without_hand_overs() {
    let mut slower = Vec::new();
    for kind in KINDS {
        let stored = or_skip!(all_take(HandOver::Never, 1, &[kind], 1).await);
        let took = all_take(HandOver::default(), 1, &[kind], 1).await;
        println!("{}: {stored:?} stored, {took:?} handed over", kind.0);
        if took > Some(stored + MOMENT * 20) {
            slower.push((kind.0, stored, took));
        }
    }
    assert!(slower.is_empty(), "{slower:?}");
}

/// The worker of an activity that its instance cancels ends it before the deletion is delivered: its input is too
/// large for a deletion by the commit.
#[tokio::test(start_paused = true)]
async fn a_cancelled_activity_that_ends_makes_no_turn_fail() {
    let backend = or_skip!(Backend::start_in_simulated_time(|_| {}).await);
    let network = Network::default();
    // The completion waits for as long as any does.
    let provider = network.provider_with(&backend, |config| config.hand_over = HandOver::Always);
    let provider = provider.await.expect("simulated");
    let stage = Stage::on_with_input(backend, provider, 2, &"x".repeat(9 * 1024)).await;
    let (first, second) = (stage.activity().await, stage.activity().await);
    let turn = stage.dispatcher().await;
    let acknowledged = stage.acknowledge(first);
    let turn = turn.await.expect("a turn");
    let next = stage.dispatcher().await;
    // The delivery reads the activity before it deletes it.
    network.slow_down(READ, MOMENT * 8);
    ok!(stage.commit(&turn, Some(second.0)));
    acknowledged.await.expect("no panic").expect("it has ended");
    assert_eq!(stage.activities().await, 1, "the deletion is on its way");
    let late = stage.acknowledge(second);
    sleep(MOMENT * 12).await;
    assert_eq!(stage.activities().await, 0);
    let turn = timeout(SECOND, next).await.expect("it is stored");
    let turn = turn.expect("a turn");
    stage.commit(&turn, None).await.expect("it is committed");
    late.await.expect("no panic").expect("it is stored");
    stage.backend.stop().await;
}
