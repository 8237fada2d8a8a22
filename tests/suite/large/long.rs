//! Long histories, and many events for one instance.

use std::time::Instant;

use cdb_tests::Backend;
use duroxide::providers::ProviderAdmin;
use duroxide::{Event, EventKind, OrchestrationContext, OrchestrationRegistry};

use super::{LOCK, Left, documents, end_of, enqueue, event, named, start, text, turn};
use crate::harness::{TestEnv, eventually, next_turn, no_activities};

async fn a_history_comes_back(turns: u64, events: u64) {
    let backend = Backend::start().await;
    let provider = backend.provider().await;
    enqueue(&provider, start("large", String::new())).await;
    let mut expected = Vec::new();
    for n in 0..turns {
        let kind = |id: u64| EventKind::ExternalEvent {
            name: format!("event-{id}"),
            data: text(100),
        };
        let ids = n * events + 1..=(n + 1) * events;
        let added: Vec<Event> = ids.map(|id| event("large", id, kind(id))).collect();
        let left = Left {
            events: added.clone(),
            metadata: named(),
            ..Left::default()
        };
        let history = turn(&provider, left).await;
        assert!(history == expected, "turn {n} began with another history");
        expected.extend(added);
        let next = crate::work_items::event_of("large", "go", "");
        enqueue(&provider, next).await;
    }
    let fresh = backend.provider().await;
    let begun = Instant::now();
    let (item, ..) = next_turn(&fresh, LOCK).await;
    println!(
        "loaded {} events in {:?}",
        item.history.len(),
        begun.elapsed()
    );
    assert!(item.history == expected, "the history has changed");
    ok!(fresh.delete_instance("large", true));
    assert_eq!(documents(&fresh, "large").await, 0);
    backend.stop().await;
}

#[tokio::test]
async fn a_history_of_ten_thousand_events_is_read_back() {
    a_history_comes_back(10, 1_000).await;
}

#[tokio::test]
#[ignore = "takes minutes; docs/reliability.md"]
async fn a_history_of_a_hundred_thousand_events_is_read_back() {
    a_history_comes_back(10, 10_000).await;
}

/// Ends after a number of events.
async fn events_are_all_heard(count: usize) {
    let listening = OrchestrationRegistry::builder()
        .register(
            "Listen",
            async |ctx: OrchestrationContext, count: String| {
                let count: u32 = count.parse().map_err(|_| "no number".to_owned())?;
                let mut sum = 0;
                for _ in 0..count {
                    let number = ctx.dequeue_event("numbers").await;
                    sum += number.parse::<u32>().map_err(|error| error.to_string())?;
                }
                Ok(sum.to_string())
            },
        )
        .build();
    let env = TestEnv::start(no_activities(), listening).await;
    let begun = Instant::now();
    let started = env
        .client
        .start_orchestration("ear", "Listen", count.to_string());
    started.await.expect("it starts");
    env.until("ear", |kind| {
        matches!(kind, EventKind::QueueSubscribed { .. })
    })
    .await;
    for number in 0..count {
        let raised = env
            .client
            .enqueue_event("ear", "numbers", number.to_string());
        raised.await.expect("the event is queued");
    }
    println!("{count} events were queued in {:?}", begun.elapsed());
    let sum = (count * (count - 1) / 2).to_string();
    assert_eq!(end_of(&env, "ear").await, sum);
    println!("{count} events were heard in {:?}", begun.elapsed());
    ok!(env.provider.delete_instance("ear", false));
    eventually(async || documents(&env.provider, "ear").await == 0).await;
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_events_are_all_received() {
    events_are_all_heard(200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; docs/reliability.md"]
async fn five_thousand_events_are_all_received() {
    events_are_all_heard(5_000).await;
}
