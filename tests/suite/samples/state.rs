//! The visible state of an instance: its key-value store, its custom status, its statistics.

use std::time::Duration;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};

use crate::harness::{TestEnv, no_activities, patiently};

fn text() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Reverse", |_: ActivityContext, text: String| async move {
            Ok(text.chars().rev().collect::<String>())
        })
        .build()
}

#[tokio::test]
async fn a_server_answers_requests_through_its_key_value_store() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Serve", |ctx: OrchestrationContext, _: String| async move {
            ctx.set_kv_value("state", "ready");
            for n in 0..3 {
                let request = ctx.dequeue_event("Requests").await;
                let answer = ctx.schedule_activity("Reverse", request).await?;
                ctx.set_kv_value(format!("answer:{n}"), answer);
            }
            ctx.clear_kv_value("state");
            Ok(ctx.get_kv_length().to_string())
        })
        .build();
    let env = TestEnv::start(text(), orchestrations).await;
    let client = &env.client;
    env.begin("server", "Serve", "").await;
    let wait_for = async |instance, key: &str| {
        patiently(async |time| client.wait_for_kv_value(instance, key, time).await).await
    };
    let ready = wait_for("server", "state").await;
    assert_eq!(ready.expect("a state"), "ready");
    for (n, request) in ["one", "two", "three"].into_iter().enumerate() {
        ok!(client.enqueue_event("server", "Requests", request));
        let answer = wait_for("server", &format!("answer:{n}")).await;
        let expected: String = request.chars().rev().collect();
        assert_eq!(answer.expect("an answer"), expected);
    }
    assert_eq!(env.end_of("server").await.as_deref(), Ok("3"));
    let state = client.get_kv_value("server", "state").await;
    assert_eq!(state.expect("an answer"), None, "it was cleared");
    env.stop().await;
}

#[tokio::test]
async fn a_counter_is_read_and_written_across_turns_and_executions() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Count", async |ctx: OrchestrationContext, round: String| {
            for _ in 0..3 {
                let count = ctx.get_kv_value_typed::<u32>("count")?.unwrap_or_default();
                ctx.schedule_activity("Reverse", "a turn").await?;
                ctx.set_kv_value_typed("count", &(count + 1));
            }
            if round == "first" {
                return ctx.continue_as_new("second").await;
            }
            Ok(ctx.get_kv_value("count").unwrap_or_default())
        })
        .build();
    let env = TestEnv::start(text(), orchestrations).await;
    let ended = env.run("counter", "Count", "first").await;
    assert_eq!(ended.as_deref(), Ok("6"));
    let count = env.client.get_kv_value_typed::<u32>("counter", "count");
    assert_eq!(count.await.expect("a value"), Some(6));
    env.stop().await;
}

#[tokio::test]
async fn an_instance_reads_values_of_another_instance() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Store", async |ctx: OrchestrationContext, value: String| {
            ctx.set_kv_value("result", value);
            Ok(ctx.schedule_wait("Never").await)
        })
        .register("Look", async |ctx: OrchestrationContext, other: String| {
            let value = ctx.get_kv_value_from_instance(&*other, "result").await?;
            let missing = ctx.get_kv_value_from_instance(other, "missing").await?;
            Ok(format!("{value:?} {missing:?}"))
        })
        .build();
    let env = TestEnv::start(no_activities(), orchestrations).await;
    let client = &env.client;
    env.begin("store", "Store", "49").await;
    let stored =
        patiently(async |time| client.wait_for_kv_value("store", "result", time).await).await;
    assert_eq!(stored.expect("a value"), "49");
    let ended = env.run("look", "Look", "store").await;
    assert_eq!(ended.as_deref(), Ok("Some(\"49\") None"));
    env.stop().await;
}

#[tokio::test]
async fn progress_shows_in_the_custom_status() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Work", |ctx: OrchestrationContext, _: String| async move {
            ctx.set_custom_status("half");
            ctx.schedule_wait("GoOn").await;
            ctx.set_custom_status("whole");
            Ok("done".to_owned())
        })
        .build();
    let env = TestEnv::start(no_activities(), orchestrations).await;
    let client = &env.client;
    env.begin("work", "Work", "").await;
    let poll = Duration::from_millis(10);
    let status = patiently(async |time| client.wait_for_status_change("work", 0, poll, time).await);
    let OrchestrationStatus::Running {
        custom_status,
        custom_status_version,
    } = status.await.expect("a change")
    else {
        panic!("it waits for an event");
    };
    assert_eq!(custom_status.as_deref(), Some("half"));
    env.until_subscribed("work", "GoOn").await;
    env.raise("work", "GoOn", "").await;
    assert_eq!(env.end_of("work").await.as_deref(), Ok("done"));
    let status = client.get_orchestration_status("work").await;
    let OrchestrationStatus::Completed {
        custom_status: last,
        custom_status_version: last_version,
        ..
    } = status.expect("a status")
    else {
        panic!("it has ended");
    };
    assert_eq!(last.as_deref(), Some("whole"));
    assert!(last_version > custom_status_version);
    env.stop().await;
}

#[tokio::test]
async fn statistics_report_how_much_an_instance_stores() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Work", |ctx: OrchestrationContext, _: String| async move {
            let text = ctx.schedule_activity("Reverse", "stressed").await?;
            ctx.set_kv_value("text", &*text);
            Ok(text)
        })
        .build();
    let env = TestEnv::start(text(), orchestrations).await;
    assert_eq!(env.run("work", "Work", "").await.as_deref(), Ok("desserts"));
    let client = &env.client;
    let stats = client.get_orchestration_stats("work").await;
    let stats = stats.expect("an answer").expect("statistics");
    let events = env.history("work").await.len();
    assert_eq!(stats.history_event_count, events as u64);
    assert!(stats.history_size_bytes > 0);
    assert_eq!(stats.kv_user_key_count, 1);
    assert_eq!(stats.kv_total_value_bytes, "desserts".len() as u64);
    assert_eq!(stats.queue_pending_count, 0);
    let missing = client.get_orchestration_stats("missing").await;
    assert_eq!(missing.expect("an answer"), None);
    env.stop().await;
}
