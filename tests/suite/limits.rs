//! An orchestration that exceeds a limit fails once, with size and limit in the error.

use std::time::{Duration, Instant};

use cdb_provider::CosmosDBProviderConfig;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};

use crate::harness::{TestEnv, long_locks};

/// The input is a number of bytes. `Give` returns them; `Send` passes them to an activity; `Ask`
/// lets a child `Give` them; `Remember` receives them in events of 10,000 bytes.
fn orchestrations() -> OrchestrationRegistry {
    let bytes = |text: &str| text.parse::<usize>().map_err(|error| error.to_string());
    OrchestrationRegistry::builder()
        .register("Give", move |_: OrchestrationContext, count: String| async move {
            Ok("x".repeat(bytes(&count)?))
        })
        .register("Send", move |ctx: OrchestrationContext, count: String| async move {
            ctx.schedule_activity("Take", "x".repeat(bytes(&count)?)).await
        })
        .register("Ask", |ctx: OrchestrationContext, count: String| async move {
            ctx.schedule_sub_orchestration("Give", count).await
        })
        .register("Work", |ctx: OrchestrationContext, count: String| async move {
            ctx.schedule_activity("Make", count).await
        })
        .register("Remember", move |ctx: OrchestrationContext, count: String| async move {
            for _ in 0..bytes(&count)? / 10_000 {
                ctx.schedule_activity("Make", "10000").await?;
            }
            Ok(String::new())
        })
        .build()
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Take", |_: ActivityContext, taken: String| async move {
            Ok(taken.len().to_string())
        })
        .register("Make", |_: ActivityContext, count: String| async move {
            let count: usize = count.parse().map_err(|_| "no number".to_owned())?;
            Ok("x".repeat(count))
        })
        .build()
}

async fn env(change: impl FnOnce(&mut CosmosDBProviderConfig)) -> TestEnv {
    let mut env = TestEnv::with_config(change).await;
    env.join(activities(), orchestrations(), long_locks()).await;
    env
}

/// Checks that the instance fails once, with these words.
async fn fails(env: &TestEnv, orchestration: &str, input: &str, words: &[&str]) {
    let error = env.run(orchestration, orchestration, input).await;
    let error = error.expect_err("it is too large").display_message();
    for word in words {
        assert!(error.contains(word), "no `{word}` in: {error}");
    }
    let info = ok!(env.client.get_instance_info(orchestration));
    assert_eq!(info.status, "Failed");
    assert_eq!(info.orchestration_name, orchestration);
    // No runtime retries it.
    if let Some(emulator) = env.emulator() {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let begun = Instant::now();
        emulator.reset_requests();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let spent = emulator.requests().data_requests();
        // Most of these requests are the reconciler's. A busy machine sends fewer.
        let most = 30 * begun.elapsed().as_secs();
        assert!(spent < most, "{spent} requests after the end");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_above_the_limit_fails_its_orchestration_with_size_and_limit() {
    let env = env(|config| {
        config.max_value_bytes = 100_000;
        config.payload_codec = None; // the limit counts encoded bytes
    })
    .await;
    let limit = ["100000", "max_value_bytes"];
    fails(
        &env,
        "Give",
        "150000",
        &[&limit[..], &["the output", "1501"]].concat(),
    )
    .await;
    fails(
        &env,
        "Send",
        "150000",
        &[&limit[..], &["the input of an activity"]].concat(),
    )
    .await;
    fails(
        &env,
        "Work",
        "150000",
        &[&limit[..], &["the result of an activity", "150000"]].concat(),
    )
    .await;
    // The parent is notified and fails with the same error.
    fails(
        &env,
        "Ask",
        "150000",
        &[&limit[..], &["the output"]].concat(),
    )
    .await;
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_above_the_limit_fails_its_orchestration_with_size_and_limit() {
    let env = env(|config| config.max_history_bytes = 50_000).await;
    fails(
        &env,
        "Remember",
        "200000",
        &["the history", "50000", "max_history_bytes"],
    )
    .await;
    env.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_above_the_limit_fails_its_orchestration_with_size_and_limit() {
    let env = env(|config| config.max_turn_bytes = 50_000).await;
    fails(
        &env,
        "Send",
        "60000",
        &["the turn", "50000", "max_turn_bytes"],
    )
    .await;
    env.stop().await;
}
