//! The cancellation of a child reaches that child and no other instance of its id: it waits for a start
//! that is on its way, and is dropped when there is none. Time is simulated.

use std::time::Duration;

use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::{
    IntentItem, IntentQueue, NEVER, OrchestratorItem, OutboxIntent, Text,
};
use cdb_provider::model::{Document as _, Query};
use cdb_tests::Backend;
use duroxide::Event;
use duroxide::providers::{
    ExecutionMetadata, OrchestrationItem, Provider as _, ProviderAdmin as _, WorkItem,
};
use tokio::time::{Instant, sleep};

use crate::forced_deletions::{LATER, Running};
use crate::harness::next_turn;
use crate::several::{ack, ack_and_send, event, start, turn_with};
use crate::work_items::{child_of, metadata_of, started};

/// Longer than the locks of turns.
const LONG: Duration = Duration::from_secs(60);

fn cancel(instance: &str) -> WorkItem {
    WorkItem::CancelInstance {
        instance: instance.to_owned(),
        reason: "enough".to_owned(),
    }
}

/// The start of a child of `parent`.
fn child_start(child: &str) -> WorkItem {
    child_of("parent", start(child))
}

/// Lets the first turn of `parent` send a cancellation.
async fn parent_cancels(provider: &CosmosDBProvider, child: &str) {
    let (turn, token, _) = turn_with(provider, start("parent"), LONG).await;
    assert_eq!(turn.instance, "parent");
    ack_and_send(provider, &turn, &token, vec![cancel(child)]).await;
}

/// Commits the first turn of an instance with this parent.
async fn begin(provider: &CosmosDBProvider, start: WorkItem, parent: Option<&str>) {
    let (turn, token, _) = turn_with(provider, start, LONG).await;
    let event = Event::with_event_id(1, &turn.instance, 1, None, started("Wait", ""));
    let metadata = ExecutionMetadata {
        parent_instance_id: parent.map(str::to_owned),
        ..metadata_of("Wait")
    };
    let begun =
        provider.ack_orchestration_item(&token, 1, vec![event], vec![], vec![], metadata, vec![]);
    begun.await.expect("the turn is committed");
}

fn is_cancelled(turn: &OrchestrationItem) -> bool {
    let mut messages = turn.messages.iter();
    messages.any(|message| matches!(message, WorkItem::CancelInstance { .. }))
}

/// Asks for turns for some minutes. There is none.
async fn nothing_runs(provider: &CosmosDBProvider) {
    for _ in 0..3 {
        let fetched = provider.fetch_orchestration_item(LONG, LONG, None);
        let fetched = fetched.await.expect("the store answers");
        assert!(fetched.is_none(), "{fetched:?}");
    }
}

/// Returns the number of messages that wait for an instance.
async fn due(provider: &CosmosDBProvider, instance: &str) -> usize {
    let messages = Query::<OrchestratorItem>::in_partition(instance);
    let messages = messages.filter(OrchestratorItem::VISIBLE_AT.lt(NEVER));
    let found = provider.container().query(messages).all().await;
    found.expect("the partition answers").len()
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_waits_for_a_start_that_is_on_its_way() {
    let year = Duration::from_secs(365 * 24 * 3600);
    let backend = Backend::start_simulated_with(|config| config.reconciler_interval = year).await;
    let provider = backend.provider().await;
    // The process that committed the start has died before its delivery.
    let now = provider.container().now();
    let mut intent = OutboxIntent::new("parent", "turn-0".to_owned(), "child", now);
    let text = serde_json::to_string(&child_start("child")).expect("it is JSON");
    intent.items.push(IntentItem {
        queue: IntentQueue::Orchestrator,
        work_item: Text::Inline(text),
        visible_at: now,
    });
    ok!(provider.container().run(intent.create()));
    parent_cancels(&provider, "child").await;
    nothing_runs(&provider).await;
    assert_eq!(due(&provider, "child").await, 1);
    let second = Duration::from_secs(1);
    let _reconciler = backend
        .provider_with(|config| config.reconciler_interval = second)
        .await;
    let (turn, ..) = next_turn(&provider, LONG).await;
    assert_eq!(turn.instance, "child");
    assert!(is_cancelled(&turn), "{:?}", turn.messages);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_of_a_deleted_child_does_not_wait_for_the_next_instance_of_its_id() {
    let backend = Backend::start_simulated().await;
    let provider = backend.provider().await;
    parent_cancels(&provider, "child").await;
    nothing_runs(&provider).await;
    assert_eq!(due(&provider, "child").await, 0);
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_its_parent_and_clients_cancel_an_instance() {
    for (first, parent) in [
        (child_start("child"), Some("parent")),
        (start("child"), None),
    ] {
        for has_begun in [false, true] {
            let backend = Backend::start_simulated().await;
            let provider = backend.provider().await;
            // The cancellation is due before the next message of the child.
            let (turn, token, _) = turn_with(&provider, start("parent"), LONG).await;
            if has_begun {
                begin(&provider, first.clone(), parent).await;
            }
            ack_and_send(&provider, &turn, &token, vec![cancel("child")]).await;
            let next = if has_begun {
                event("child")
            } else {
                first.clone()
            };
            let (turn, token, _) = turn_with(&provider, next, LONG).await;
            assert_eq!(turn.instance, "child");
            let what = (has_begun, &turn.messages);
            assert_eq!(is_cancelled(&turn), parent.is_some(), "{what:?}");
            ack(&provider, &turn, &token).await;
            let (turn, ..) = turn_with(&provider, cancel("child"), LONG).await;
            assert!(is_cancelled(&turn), "{:?}", turn.messages);
            assert_eq!(due(&provider, "child").await, 1);
            backend.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_recreated_instance_is_not_cancelled_by_the_past() {
    let mut running = Running::start(0).await;
    // The first turn has the start and the cancellation.
    running.begin("root", "Boss", "300").await;
    running.cancel("root").await;
    running.join().await;
    running.fails("root").await;
    ok!(running.provider.delete_instance("root", false));
    assert_eq!(running.left("then").await, Vec::<String>::new());
    running.begin("root", "Boss", "300").await;
    sleep(LATER).await;
    for id in ["root", "root/k#1", "root::sub::2", "root::sub::4"] {
        assert!(running.is_running(id).await, "{id}");
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_tree_that_is_cancelled_at_any_moment_ends_and_leaves_nothing() {
    let mut failures = Vec::new();
    let running = Running::start(2).await;
    for step in [0, 1, 3, 6] {
        let root = format!("root{step}");
        running.begin(&root, "Boss", "300").await;
        sleep(Duration::from_millis(47 * step % 397 + 2000 * (step % 3))).await;
        running.cancel(&root).await;
        running.fails(&root).await;
        sleep(Duration::from_secs(3)).await;
        let ended = Instant::now();
        sleep(Duration::from_secs(5)).await;
        let mut wrong = running.log.since(ended);
        let mut purge = running.provider.purge_ended(Duration::ZERO);
        while purge.next_slice().await.expect("it is purged").is_some() {}
        wrong.extend(running.left("then").await);
        if !wrong.is_empty() {
            failures.push(format!("{step}: {wrong:?}"));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
    running.stop().await;
}
