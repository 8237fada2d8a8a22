//! Queued events that an execution has not taken reach the next one, however many they are.

use std::sync::Arc;
use std::time::Duration;

use cdb_tests::Backend;
use duroxide::runtime::Runtime;
use duroxide::{
    Client, EventKind, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
};
use tokio::time::sleep;

use crate::harness::{long_locks, no_activities};

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

fn takers() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Rounds", rounds)
        .register("Held", held)
        .build()
}

/// Queues events and the last one for an instance.
async fn queue_many(client: &Client, instance: &str, count: usize) {
    let numbers = (0..count).map(|number| number.to_string());
    for data in numbers.chain(["last".to_owned()]) {
        let queued = client.enqueue_event(instance, "Orders", data).await;
        queued.expect("it is queued");
    }
}

/// duroxide carries 100 events to the next execution, and drops the others.
#[tokio::test(start_paused = true)]
async fn more_events_than_an_execution_may_carry_are_received_in_their_order() {
    let backend = Backend::start_simulated().await;
    let shared = Arc::new(backend.provider().await);
    let client = Client::new(shared.clone());
    let runtime =
        Runtime::start_with_options(shared, no_activities(), takers(), long_locks()).await;
    for name in ["Rounds", "Held"] {
        let begun = client.start_orchestration(name, name, "").await;
        begun.expect("it is started");
        if name == "Held" {
            // All events are delivered to one execution, in several turns.
            let waits = async || {
                let history = client.read_execution_history(name, 1).await;
                let history = history.unwrap_or_default();
                let kinds = history.iter().map(|event| &event.kind);
                let delivered =
                    kinds.filter(|kind| matches!(kind, EventKind::QueueEventDelivered { .. }));
                delivered.count()
            };
            queue_many(&client, name, 250).await;
            while waits().await < 251 {
                sleep(Duration::from_millis(100)).await;
            }
            let raised = client.raise_event(name, "Go", "").await;
            raised.expect("it is raised");
        } else {
            queue_many(&client, name, 250).await;
        }
        let ended = client.wait_for_orchestration(name, Duration::from_secs(600));
        let Ok(OrchestrationStatus::Completed { output, .. }) = ended.await else {
            panic!("`{name}` has not ended");
        };
        let expected: Vec<_> = (0..250).map(|number| number.to_string()).collect();
        let taken: Vec<_> = output.split_whitespace().collect();
        assert_eq!(taken, expected, "{name}");
    }
    runtime.shutdown(None).await;
    backend.stop().await;
}
