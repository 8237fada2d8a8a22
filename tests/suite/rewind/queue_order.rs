//! Queued events that an execution has not taken when it fails: a rewind gives all of them to the new
//! course, in their order. Time is simulated.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::OrchestratorItem;
use cdb_provider::model::Query;
use cdb_tests::Backend;
use duroxide::providers::{Provider as _, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, AppErrorKind, Client, ErrorDetails, Event, EventKind, OrchestrationContext,
    OrchestrationRegistry, OrchestrationStatus,
};
use tokio::time::sleep;

use super::started;
use crate::harness::{end_within, next_turn};
use crate::several::turn_with;
use crate::work_items::{ending, scheduled};

const SECOND: Duration = Duration::from_secs(1);

/// Takes some events, runs an activity that fails until it is repaired, and takes the others.
async fn takes(ctx: OrchestrationContext, before: String) -> Result<String, String> {
    let mut taken = Vec::new();
    for _ in 0..before.parse().expect("a number") {
        taken.push(ctx.dequeue_event("Orders").await);
    }
    ctx.schedule_activity("Break", "").await?;
    loop {
        let event = ctx.dequeue_event("Orders").await;
        if event == "last" {
            return Ok(taken.join(" "));
        }
        taken.push(event);
    }
}

/// Ends when it is raised an event, and takes none of the queue.
async fn idle(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    Ok(ctx.schedule_wait("Go").await)
}

/// A store with a client and a runtime, each with a provider of its own.
struct Desk {
    backend: Backend,
    provider: CosmosDBProvider,
    client: Client,
    runtime: Option<Arc<Runtime>>,
    is_broken: Arc<AtomicBool>,
}

impl Desk {
    async fn open() -> Self {
        let backend = Backend::start_simulated().await;
        let provider = backend.provider().await;
        Self {
            client: Client::new(Arc::new(provider.clone())),
            backend,
            provider,
            runtime: None,
            is_broken: Arc::new(AtomicBool::new(true)),
        }
    }

    async fn run(&mut self) {
        let provider = Arc::new(self.backend.provider().await);
        let is_broken = self.is_broken.clone();
        let activities = ActivityRegistry::builder()
            .register("Break", move |_: ActivityContext, _: String| {
                let fails = is_broken.load(Ordering::Relaxed);
                async move {
                    sleep(SECOND * 5).await;
                    if fails {
                        Err("broken".to_owned())
                    } else {
                        Ok(String::new())
                    }
                }
            })
            .build();
        let orchestrations = OrchestrationRegistry::builder()
            .register("Takes", takes)
            .register("Idle", idle)
            .build();
        let options = RuntimeOptions::default();
        let runtime = Runtime::start_with_options(provider, activities, orchestrations, options);
        self.runtime = Some(runtime.await);
    }

    async fn begin(&self, orchestration: &str, input: &str) {
        ok!(self.client.start_orchestration("i", orchestration, input));
    }

    async fn queue(&self, data: impl Into<String>) {
        ok!(self.client.enqueue_event("i", "Orders", data));
    }

    async fn queue_numbers(&self, count: usize) {
        for number in 0..count {
            self.queue(number.to_string()).await;
        }
    }

    async fn end(&self) -> Result<String, String> {
        let ended = end_within(&self.client, "i", SECOND * 120).await;
        match ended.expect("it ends") {
            OrchestrationStatus::Completed { output, .. } => Ok(output),
            OrchestrationStatus::Failed { details, .. } => Err(details.display_message()),
            other => panic!("{other:?}"),
        }
    }

    /// Fails, is rewound a while later, and returns what the new course takes.
    async fn rewound(&self) -> String {
        let failed = self.end().await.expect_err("it is broken");
        assert!(failed.contains("broken"), "{failed}");
        sleep(SECOND * 20).await;
        self.is_broken.store(false, Ordering::Relaxed);
        ok!(self.provider.rewind("i", "ada"));
        sleep(SECOND * 8).await;
        self.queue("last").await;
        self.end().await.expect("it is repaired")
    }

    async fn close(self) {
        if let Some(runtime) = self.runtime {
            runtime.shutdown(None).await;
        }
        self.backend.stop().await;
    }
}

fn numbers(count: usize) -> String {
    let all = (0..count).map(|number| number.to_string());
    all.collect::<Vec<_>>().join(" ")
}

/// Two events are taken, so the turn that fails has room for two more of those that wait in the store.
/// The rewind drops that turn, and both arrive again, before the others.
#[tokio::test(start_paused = true)]
async fn queued_events_keep_their_order_over_a_rewind() {
    let mut desk = Desk::open().await;
    desk.run().await;
    desk.begin("Takes", "2").await;
    sleep(SECOND).await;
    desk.queue_numbers(70).await;
    assert_eq!(desk.rewound().await, numbers(70));
    desk.close().await;
}

/// None is taken before the failure. The events wait before the first turn, or arrive later.
#[tokio::test(start_paused = true)]
async fn queued_events_that_waited_at_a_failure_outlive_it() {
    for is_early in [true, false] {
        let mut desk = Desk::open().await;
        desk.begin("Takes", "0").await;
        if is_early {
            desk.queue_numbers(140).await;
        }
        desk.run().await;
        if !is_early {
            sleep(SECOND).await;
            desk.queue_numbers(140).await;
        }
        assert_eq!(desk.rewound().await, numbers(140), "early: {is_early}");
        desk.close().await;
    }
}

/// What a completed orchestration has not taken is dropped, so that it is not due for ever.
#[tokio::test(start_paused = true)]
async fn nothing_waits_for_a_completed_orchestration() {
    let mut desk = Desk::open().await;
    desk.run().await;
    desk.begin("Idle", "").await;
    sleep(SECOND).await;
    desk.queue_numbers(70).await;
    sleep(SECOND * 2).await;
    ok!(desk.client.raise_event("i", "Go", ""));
    desk.end().await.expect("it completes");
    sleep(SECOND * 90).await;
    let left = Query::<OrchestratorItem>::in_partition("i");
    let left = ok!(desk.provider.container().query(left).all()).into_iter();
    let waiting = left.filter(|item| item.document.ttl.is_none());
    assert_eq!(waiting.count(), 0);
    desk.close().await;
}

/// More than ten events arrive in the turn that fails, and others wait.
#[tokio::test(start_paused = true)]
async fn what_arrived_together_arrives_again_in_its_order() {
    let backend = Backend::start_simulated().await;
    let provider = backend.provider().await;
    let queued = |number: u64| EventKind::QueueEventDelivered {
        name: "Orders".to_owned(),
        data: number.to_string(),
    };
    let (_, token, _) = turn_with(&provider, crate::several::start("i"), SECOND * 5).await;
    let event = |id, source, kind| Event::with_event_id(id, "i", 1, source, kind);
    let scheduled = scheduled("Break", "");
    let details = ErrorDetails::Application {
        kind: AppErrorKind::OrchestrationFailed,
        message: "broken".to_owned(),
        retryable: false,
    };
    let mut events = vec![
        event(1, None, started("Wait", "")),
        event(2, None, scheduled),
    ];
    events.extend((0..20).map(|number| event(3 + number, None, queued(number))));
    let failed = EventKind::ActivityFailed {
        details: details.clone(),
    };
    events.push(event(23, Some(2), failed));
    events.push(event(24, None, EventKind::OrchestrationFailed { details }));
    let metadata = ending("Failed");
    let ended = provider
        .ack_orchestration_item(&token, 1, events, vec![], vec![], metadata, vec![])
        .await;
    ended.expect("it is committed");
    provider.rewind("i", "ada").await.expect("it is rewound");
    let (item, ..) = next_turn(&provider, SECOND * 5).await;
    let data = item.messages.iter().map(|message| match message {
        WorkItem::QueueMessage { data, .. } => &**data,
        other => panic!("{other:?}"),
    });
    assert_eq!(data.collect::<Vec<_>>().join(" "), numbers(20));
    backend.stop().await;
}
