//! Operators who stand still, run twice at once, or meet damaged instances and circles of children.
//! Time is simulated.

use std::time::Duration;

use cdb_client::transport::HttpRequest;
use cdb_provider::documents::{
    Instance, InstanceKey, OrchestratorItem, PAUSED, WorkerItem, WorkerItemKey,
};
use cdb_provider::model::{Document as _, Patch, Query};
use cdb_provider::{CosmosDBProvider, TreeScope};
use cdb_tests::Backend;
use duroxide::providers::{Provider, ProviderAdmin as _, ProviderError, TagFilter, WorkItem};
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{Client, EventKind, OrchestrationContext, OrchestrationRegistry};
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::harness::{end_of, eventually, next_activity, next_turn, no_activities};
use crate::hostile::raw::Raw;
use crate::network::{Kind, on_network};
use crate::several::{begin, enqueue, event};
use crate::work_items::{activity_of, event_of};

const SECOND: Duration = Duration::from_secs(1);

/// An operator who stands still goes on after the lock has expired, and after others have acted. The
/// answer to its last request has arrived meanwhile, so it goes on with that.
const STALL: Duration = Duration::from_secs(150);
const ACT: Duration = Duration::from_secs(100);

/// More requests than a pause or a resumption sends.
const MOST_REQUESTS: usize = 40;

fn lock_time() -> Duration {
    RuntimeOptions::default().worker_lock_timeout
}

/// A request about the instance of the test.
const OF_MAIN: Kind = |request: &HttpRequest| {
    let key = request.headers.get("x-ms-documentdb-partitionkey");
    key.is_some_and(|key| key == "[\"main\"]")
};

/// A committed instance, and a free activity of it.
async fn with_activity(provider: &CosmosDBProvider) {
    begin(provider, "main", lock_time()).await;
    enqueue_activity(provider).await;
}

async fn enqueue_activity(provider: &CosmosDBProvider) {
    ok!(provider.enqueue_for_worker(activity_of("main", 2, None)));
}

async fn finds_turn(provider: &CosmosDBProvider, time: Duration) -> bool {
    crate::harness::finds_turn(provider, lock_time(), time).await
}

async fn finds_activity(provider: &CosmosDBProvider, time: Duration) -> bool {
    crate::harness::finds_activity(provider, lock_time(), time).await
}

async fn pause(provider: &CosmosDBProvider) {
    ok!(provider.pause("main", TreeScope::Tree, "ada"));
}

/// Resumes, as an operator who repeats the command.
async fn resume(provider: &CosmosDBProvider) {
    while let Err(error) = provider.resume("main", TreeScope::Tree).await {
        assert!(error.is_retryable(), "{error}");
    }
}

/// The command ends, and says whether it is to be repeated.
fn may_repeat(ended: Result<Vec<String>, ProviderError>) {
    if let Err(error) = ended {
        assert!(error.is_retryable(), "{error}");
    }
}

/// What is withheld has a paused instance.
async fn check_withheld(provider: &CosmosDBProvider) {
    let container = provider.container();
    let instance = container.read(&InstanceKey::new("main")).await;
    if instance
        .expect("a read")
        .expect("it exists")
        .document
        .paused
        .is_some()
    {
        return;
    }
    let messages = Query::<OrchestratorItem>::in_partition("main")
        .filter(OrchestratorItem::VISIBLE_AT.eq(PAUSED));
    let activities =
        Query::<WorkerItem>::in_partition("main").filter(WorkerItem::VISIBLE_AT.eq(PAUSED));
    let held = ok!(container.query(messages.count()).all());
    assert_eq!(held, [0], "messages are withheld");
    let held = ok!(container.query(activities.count()).all());
    assert_eq!(held, [0], "activities are withheld");
}

#[tokio::test(start_paused = true)]
async fn a_resumption_that_stands_still_after_any_request_loses_no_message() {
    for requests in 0..MOST_REQUESTS {
        let (backend, network, operator) = or_skip!(on_network().await);
        let runtime = backend.provider().await;
        with_activity(&runtime).await;
        pause(&operator).await;
        network.freeze_after(requests, OF_MAIN, STALL);
        let resumed = network.process(operator.resume("main", TreeScope::Alone));
        let meanwhile = async {
            sleep(ACT).await;
            enqueue(&runtime, event("main")).await;
            finds_turn(&runtime, SECOND * 20).await
        };
        let (resumed, had_turn) = tokio::join!(resumed, meanwhile);
        may_repeat(resumed);
        let has_stalled = network.has_stalled();
        network.repair();
        check_withheld(&runtime).await;
        resume(&operator).await;
        check_withheld(&runtime).await;
        let lost = format!("lost after {requests} requests");
        assert!(
            had_turn || finds_turn(&runtime, SECOND * 40).await,
            "{lost}"
        );
        assert!(finds_activity(&runtime, SECOND * 40).await, "{lost}");
        backend.stop().await;
        if !has_stalled {
            assert!(requests > 3, "{requests}");
            return;
        }
    }
    panic!("a resumption sends too many requests");
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_stands_still_after_any_request_loses_no_activity() {
    for requests in 0..MOST_REQUESTS {
        let (backend, network, operator) = or_skip!(on_network().await);
        let runtime = backend.provider().await;
        with_activity(&runtime).await;
        network.freeze_after(requests, OF_MAIN, STALL);
        let paused = network.process(operator.pause("main", TreeScope::Alone, "ada"));
        let meanwhile = async {
            // Another operator pauses and resumes, while the first one stands still.
            sleep(ACT).await;
            pause(&runtime).await;
            resume(&runtime).await;
        };
        let (paused, ()) = tokio::join!(paused, meanwhile);
        may_repeat(paused);
        let has_stalled = network.has_stalled();
        network.repair();
        check_withheld(&runtime).await;
        resume(&operator).await;
        let lost = format!("lost after {requests} requests");
        assert!(finds_activity(&runtime, SECOND * 40).await, "{lost}");
        backend.stop().await;
        if !has_stalled {
            assert!(requests > 3, "{requests}");
            return;
        }
    }
    panic!("a pause sends too many requests");
}

#[tokio::test(start_paused = true)]
async fn damaged_items_of_a_paused_instance_are_due_after_it_is_resumed() {
    let backend = Backend::start_simulated().await;
    let provider = backend.provider().await;
    let Some(emulator) = backend.emulator() else {
        return backend.stop().await;
    };
    let raw = Raw::on(emulator, provider.container().name());
    with_activity(&provider).await;
    raw.damage("main", "worker_queue", |item| item["workItem"] = json!(5))
        .await;
    pause(&provider).await;
    raw.put(&json!({
        "id": "main:orch:odd", "type": "orch_queue", "instanceId": "main", "visibleAt": 1000,
        "dispatchSlot": 1, "workItem": "{}", "enqueuedAt": "long ago",
    }))
    .await;
    let other = backend.provider().await;
    assert!(!finds_turn(&other, SECOND * 20).await);
    resume(&provider).await;
    for document in raw.documents("main").await {
        let held = json!(PAUSED.as_millis());
        assert!(document["visibleAt"] != held, "{document}");
    }
    assert!(finds_turn(&other, SECOND * 40).await);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_an_older_version_leaves_withheld_without_a_pause_is_released() {
    let backend = Backend::start_simulated().await;
    let provider = backend.provider().await;
    with_activity(&provider).await;
    pause(&provider).await;
    let dropped = Patch::<Instance>::new().set(Instance::PAUSED, None);
    let key = InstanceKey::new("main");
    let dropped = provider.container().run(dropped.at(&key)).await;
    dropped.expect("the pause is dropped");
    assert!(!finds_activity(&provider, SECOND * 40).await);
    resume(&provider).await;
    assert!(finds_activity(&provider, SECOND * 10).await);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn released_items_keep_their_order_and_are_as_old_as_the_resumption() {
    let backend = Backend::start_simulated().await;
    let provider = backend.provider().await;
    with_activity(&provider).await;
    pause(&provider).await;
    for name in ["a", "b", "c"] {
        enqueue(&provider, event_of("main", name, "")).await;
        assert!(!finds_turn(&provider, SECOND * 10).await);
    }
    let resumed_at = provider.container().now();
    resume(&provider).await;
    let found = Query::<WorkerItem>::in_partition("main");
    let found = provider.container().query(found).first().await;
    let found = found.expect("a query").expect("an activity").document;
    assert!(found.visible_at >= resumed_at - SECOND, "{found:?}");
    let messages = Query::<OrchestratorItem>::in_partition("main")
        .filter(OrchestratorItem::VISIBLE_AT.between(resumed_at - SECOND, resumed_at + SECOND));
    let messages = provider.container().query(messages.count()).all().await;
    assert_eq!(messages.expect("a count"), [3]);
    let (item, ..) = next_turn(&provider, lock_time()).await;
    let names = item.messages.iter().map(|message| match message {
        WorkItem::ExternalRaised { name, .. } => &**name,
        other => panic!("{other:?}"),
    });
    assert_eq!(names.collect::<Vec<_>>(), ["a", "b", "c"]);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_for_a_paused_instance_does_not_load_it_again() {
    const LOAD: Kind = |request| {
        let is_query = request.headers.contains_key("x-ms-documentdb-isquery");
        is_query && OF_MAIN(request)
    };
    let (backend, network, runtime) = or_skip!(on_network().await);
    let other = backend.provider().await;
    with_activity(&other).await;
    pause(&other).await;
    for number in 0..3 {
        enqueue(&other, event("main")).await;
        if number == 1 {
            network.stall_at(LOAD, STALL);
        }
        assert!(!finds_turn(&runtime, SECOND * 10).await);
        assert!(!network.has_stalled(), "event {number} loads the instance");
    }
    network.repair();
    resume(&other).await;
    assert!(finds_turn(&runtime, SECOND * 10).await);
    backend.stop().await;
}

/// Sub-orchestrations that start each other, and wait for ever.
fn circle() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Circle", async |ctx: OrchestrationContext, next: String| {
            let last = if next == "left" { "right" } else { "left" };
            ctx.schedule_sub_orchestration_with_id("Circle", next, last)
                .await
        })
        .build()
}

#[tokio::test(start_paused = true)]
async fn commands_end_on_a_circle_of_children() {
    let backend = Backend::start_simulated().await;
    let provider = backend.provider().await;
    let shared = std::sync::Arc::new(provider.clone());
    let client = Client::new(shared.clone());
    let options = RuntimeOptions::default();
    let runtime = Runtime::start_with_options(shared, no_activities(), circle(), options).await;
    ok!(client.start_orchestration("left", "Circle", "right"));
    let has_schedule = async |instance: &str| {
        let events = provider.read(instance).await.unwrap_or_default();
        let mut events = events.iter();
        events.any(|event| matches!(event.kind, EventKind::SubOrchestrationScheduled { .. }))
    };
    eventually(async || has_schedule("right").await).await;
    let ended = async {
        let paused = provider.pause("left", TreeScope::Tree, "ada").await;
        assert_eq!(paused.expect("paused"), ["left", "right"]);
        let resumed = provider.resume("left", TreeScope::Tree).await;
        assert_eq!(resumed.expect("resumed"), ["right", "left"]);
        ok!(client.cancel_instance("left", "enough"));
        end_of(&client, "left").await;
        end_of(&client, "right").await;
        let rewound = provider.plan_rewind("left").await;
        let refused = rewound.expect_err("they wait for each other");
        assert!(refused.message.contains("wait for each other"), "{refused}");
        let tree = provider.get_instance_tree("left").await.expect("a tree");
        assert_eq!(tree.all_ids, ["left", "right"]);
    };
    timeout(SECOND * 600, ended)
        .await
        .expect("all commands end");
    // Only damage makes a circle of parents.
    let parent =
        Patch::<Instance>::new().set(Instance::PARENT_INSTANCE_ID, Some("right".to_owned()));
    let key = InstanceKey::new("left");
    ok!(provider.container().run(parent.at(&key)));
    let tree = timeout(SECOND * 60, provider.get_instance_tree("left")).await;
    let tree = tree.expect("it ends").expect("a tree");
    assert_eq!(tree.all_ids, ["left", "right"]);
    runtime.shutdown(None).await;
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_paused_before_it_begins_is_deleted_with_its_root() {
    let backend = Backend::start_simulated().await;
    let (provider, other) = (backend.provider().await, backend.provider().await);
    crate::pauses::schedule_child(&provider).await;
    pause(&provider).await;
    ok!(provider.delete_instance("main", true));
    let left = Query::<Instance>::in_partition("below");
    let left = provider.container().query(left.count()).all().await;
    assert_eq!(left.expect("a count"), [0]);
    assert!(!finds_turn(&other, SECOND * 60).await);
    backend.stop().await;
}

/// No runtime takes the start meanwhile.
#[tokio::test(start_paused = true)]
async fn a_child_that_has_not_begun_is_deleted_with_its_root() {
    let backend = Backend::start_simulated().await;
    let (provider, other) = (backend.provider().await, backend.provider().await);
    crate::pauses::schedule_child(&provider).await;
    ok!(provider.delete_instance("main", true));
    assert!(!finds_turn(&other, SECOND * 60).await);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_paused_before_it_begins_can_be_resumed_alone() {
    let backend = Backend::start_simulated().await;
    let (provider, other) = (backend.provider().await, backend.provider().await);
    crate::pauses::schedule_child(&provider).await;
    pause(&provider).await;
    let resumed = provider.resume("below", TreeScope::Alone).await;
    assert_eq!(resumed.expect("resumed"), ["below"]);
    let (item, ..) = next_turn(&other, lock_time()).await;
    assert_eq!(item.instance, "below");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_was_locked_before_the_pause_is_not_handed_out_after_it() {
    const QUERY: Kind = |request| {
        let is_query = request.headers.contains_key("x-ms-documentdb-isquery");
        is_query && OF_MAIN(request)
    };
    const POINT_WRITE: Kind = |request| crate::network::PATCH(request) && OF_MAIN(request);
    // The lock is answered late, or the history that precedes the activity is.
    for is_read_slow in [true, false] {
        let (backend, network, worker) = or_skip!(on_network().await);
        let operator = backend.provider().await;
        with_activity(&operator).await;
        if is_read_slow {
            network.slow_down(QUERY, SECOND * 8);
        } else {
            network.answer_late(POINT_WRITE, SECOND * 8);
        }
        let found = worker.fetch_work_item(lock_time(), SECOND * 30, None, &TagFilter::Any);
        let paused = async {
            sleep(SECOND * 2).await;
            pause(&operator).await;
        };
        let (found, ()) = tokio::join!(found, paused);
        assert!(found.expect("fetch").is_none(), "it is handed out");
        network.repair();
        resume(&operator).await;
        let (_, _, attempt) = next_activity(&operator, lock_time(), None).await;
        assert_eq!(attempt, 1, "it has not begun before");
        backend.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_returns_after_the_hand_outs_of_locked_activities() {
    let backend = Backend::start_simulated().await;
    let (worker, operator) = (backend.provider().await, backend.provider().await);
    with_activity(&operator).await;
    let (_, token, _) = next_activity(&worker, lock_time(), None).await;
    let began = tokio::time::Instant::now();
    pause(&operator).await;
    assert!(
        began.elapsed() >= SECOND,
        "its worker may be about to begin it"
    );
    let key = WorkerItemKey::new("main", 1_u64, 2_u64);
    let running = operator.container().read(&key).await.expect("a read");
    assert!(running.expect("it runs").document.paused.is_some());
    let done = crate::work_items::completion_of("main", 2, "");
    ok!(worker.ack_work_item(&token, Some(done)));
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_returns_after_the_hand_outs_of_reserved_messages() {
    for reserved in [true, false] {
        let backend = Backend::start_simulated().await;
        let operator = backend.provider().await;
        with_activity(&operator).await;
        let now = operator.container().now();
        let mut message = OrchestratorItem::new(&event("main"), "e".to_owned(), now, now);
        if let Ok(message) = &mut message {
            message.reserved = reserved;
            message.visible_at = now + SECOND;
        }
        let message = message.expect("it is JSON");
        ok!(operator.container().run(message.create()));
        let began = tokio::time::Instant::now();
        pause(&operator).await;
        let has_waited = began.elapsed() >= SECOND;
        assert_eq!(
            has_waited, reserved,
            "a runtime may be about to begin a turn"
        );
        backend.stop().await;
    }
}
