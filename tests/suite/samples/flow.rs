//! Activities in sequence and in parallel.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, EventKind, OrchestrationContext, OrchestrationRegistry};

use crate::harness::TestEnv;

fn arithmetic() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Greet", |_: ActivityContext, name: String| async move {
            Ok(format!("Hello, {name}!"))
        })
        .register("Square", |_: ActivityContext, n: String| async move {
            let n: u64 = n.parse().map_err(|_| format!("{n} is no number"))?;
            Ok((n * n).to_string())
        })
        .register("IsOdd", |_: ActivityContext, n: String| async move {
            let odd = n
                .chars()
                .last()
                .is_some_and(|digit| "13579".contains(digit));
            Ok(odd.to_string())
        })
        .build()
}

#[tokio::test]
async fn hello_world() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Hello", async |ctx: OrchestrationContext, input: String| {
            let first = ctx.schedule_activity("Greet", "Rust").await?;
            let second = ctx.schedule_activity("Greet", input).await?;
            Ok(format!("{first} {second}"))
        })
        .build();
    let env = TestEnv::start(arithmetic(), orchestrations).await;
    let ended = env.run("hello", "Hello", "TestEnv").await;
    assert_eq!(ended.as_deref(), Ok("Hello, Rust! Hello, TestEnv!"));
    env.stop().await;
}

#[tokio::test]
async fn fan_out_results_keep_their_order() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Fan", |ctx: OrchestrationContext, _: String| async move {
            let squares = (0..50).map(|n| ctx.schedule_activity("Square", n.to_string()));
            let squares = ctx.join(squares.collect()).await;
            let squares: Result<Vec<String>, String> = squares.into_iter().collect();
            Ok(squares?.join(" "))
        })
        .build();
    let env = TestEnv::start(arithmetic(), orchestrations).await;
    let expected: Vec<String> = (0..50).map(|n| (n * n).to_string()).collect();
    let ended = env.run("fan", "Fan", "").await;
    assert_eq!(ended, Ok(expected.join(" ")));
    let history = env.history("fan").await;
    let completed = history
        .iter()
        .filter(|kind| matches!(kind, EventKind::ActivityCompleted { .. }));
    assert_eq!(completed.count(), 50, "each activity completes once");
    env.stop().await;
}
