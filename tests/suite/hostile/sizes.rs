//! Texts of ten megabytes in fields with small limits.

use std::time::Duration;

use cdb_tests::Backend;
use duroxide::providers::{ExecutionMetadata, Provider, ProviderError, WorkItem};
use duroxide::{Event, EventKind, OrchestrationContext, OrchestrationRegistry};

use crate::harness::{TestEnv, long_locks, no_activities};

fn huge() -> String {
    "x".repeat(10 * 1024 * 1024)
}

const LOCK: Duration = Duration::from_secs(3600);

fn start(instance: &str) -> WorkItem {
    crate::work_items::start_of(instance, "Talk")
}

/// Another runtime, which checks no limit, commits a turn with this event.
async fn commit(
    provider: &dyn Provider,
    token: &str,
    kind: EventKind,
    status: Option<&str>,
) -> Result<(), ProviderError> {
    let metadata = ExecutionMetadata {
        orchestration_name: Some("Talk".to_owned()),
        status: status.map(str::to_owned),
        ..ExecutionMetadata::default()
    };
    let event = Event::with_event_id(1, "talker", 1, None, kind);
    provider
        .ack_orchestration_item(token, 1, vec![event], vec![], vec![], metadata, vec![])
        .await
}

#[tokio::test]
async fn a_custom_status_of_ten_megabytes_is_refused_and_the_turn_can_still_fail() {
    let backend = Backend::start().await;
    let provider = backend.provider().await;
    ok!(provider.enqueue_for_orchestrator(start("talker"), None));
    let fetched = provider.fetch_orchestration_item(LOCK, Duration::ZERO, None);
    let (_, token, _) = fetched.await.expect("fetch").expect("a turn");
    let status = Some(huge());
    let said = EventKind::CustomStatusUpdated { status };
    let error = commit(&provider, &token, said, None)
        .await
        .expect_err("it is too long");
    assert!(!error.is_retryable(), "{error}");
    for words in ["Custom status", "10485760", "262144"] {
        assert!(
            error.to_string().contains(words),
            "no `{words}` in: {error}"
        );
    }
    let end = EventKind::OrchestrationCompleted {
        output: "quiet".to_owned(),
    };
    let ended = commit(&provider, &token, end, Some("Completed")).await;
    ended.expect("the lock is still held");
    let seen = ok!(provider.get_custom_status("talker", 0));
    assert_eq!(seen, None);
    backend.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_ten_megabytes_are_refused_or_fail_their_orchestration_once() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Status", async |ctx: OrchestrationContext, _: String| {
            ctx.set_custom_status(huge());
            Ok(ctx.schedule_wait("Go").await)
        })
        .register("Activity", async |ctx: OrchestrationContext, _: String| {
            ctx.schedule_activity(huge(), "").await
        })
        .register("Child", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_sub_orchestration(huge(), "").await
        })
        .register("Event", |ctx: OrchestrationContext, _: String| async move {
            Ok(ctx.schedule_wait("Go").await)
        })
        .build();
    let mut env = TestEnv::without_runtime().await;
    env.join(no_activities(), orchestrations, long_locks())
        .await;
    let refused = [
        env.client.start_orchestration(huge(), "Event", "").await,
        env.client.start_orchestration("name", huge(), "").await,
        env.client.raise_event("event", huge(), "").await,
    ];
    for (refused, words) in refused.into_iter().zip(["1023", "65536", "65536"]) {
        let error = refused.expect_err("it is too long").to_string();
        assert!(
            error.contains(words),
            "no `{words}` in: {}",
            error.chars().take(300).collect::<String>()
        );
        assert!(error.len() < 2000, "{} bytes of error", error.len());
    }
    for (name, words) in [
        ("Status", "bytes"),
        ("Activity", "65536"),
        ("Child", "65536"),
    ] {
        let error = env.run(name, name, "").await.expect_err("it is too long");
        let error = error.display_message();
        let beginning: String = error.chars().take(300).collect();
        assert!(error.contains(words), "no `{words}` in: {beginning}");
    }
    // The runtime continues to work.
    env.begin("event", "Event", "").await;
    env.until_subscribed("event", "Go").await;
    env.raise("event", "Go", "on").await;
    assert_eq!(env.end_of("event").await, Ok("on".to_owned()));
    env.stop().await;
}
