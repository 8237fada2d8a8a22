//! Activities in sequence, by condition, in loops, in parallel.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, EventKind, OrchestrationContext, OrchestrationRegistry};
use serde::{Deserialize, Serialize};

use crate::harness::{TestEnv, no_activities, patiently};

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
        .register(
            "Hello",
            |ctx: OrchestrationContext, input: String| async move {
                let first = ctx.schedule_activity("Greet", "Rust").await?;
                let second = ctx.schedule_activity("Greet", input).await?;
                Ok(format!("{first} {second}"))
            },
        )
        .build();
    let env = TestEnv::start(arithmetic(), orchestrations).await;
    let ended = env.run("hello", "Hello", "TestEnv").await;
    assert_eq!(ended.as_deref(), Ok("Hello, Rust! Hello, TestEnv!"));
    env.stop().await;
}

#[tokio::test]
async fn an_activity_s_result_selects_the_branch() {
    let orchestrations = OrchestrationRegistry::builder()
        .register(
            "Choose",
            |ctx: OrchestrationContext, input: String| async move {
                if ctx.schedule_activity("IsOdd", &*input).await? == "true" {
                    ctx.schedule_activity("Square", input).await
                } else {
                    ctx.schedule_activity("Greet", input).await
                }
            },
        )
        .build();
    let env = TestEnv::start(arithmetic(), orchestrations).await;
    assert_eq!(env.run("odd", "Choose", "7").await.as_deref(), Ok("49"));
    let even = env.run("even", "Choose", "8").await;
    assert_eq!(even.as_deref(), Ok("Hello, 8!"));
    env.stop().await;
}

#[tokio::test]
async fn a_loop_of_twenty_activities_keeps_its_sum() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Sum", |ctx: OrchestrationContext, _: String| async move {
            let mut sum = 0;
            for n in 1..=20 {
                let square = ctx.schedule_activity("Square", n.to_string()).await?;
                sum += square.parse::<u64>().map_err(|error| error.to_string())?;
            }
            Ok(sum.to_string())
        })
        .build();
    let env = TestEnv::start(arithmetic(), orchestrations).await;
    assert_eq!(env.run("loop", "Sum", "").await.as_deref(), Ok("2870"));
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

#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Rectangle {
    width: u64,
    height: u64,
}

#[tokio::test]
async fn values_can_be_typed() {
    let activities = ActivityRegistry::builder()
        .register_typed("Area", |_: ActivityContext, shape: Rectangle| async move {
            Ok(shape.width * shape.height)
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register_typed(
            "Double",
            |ctx: OrchestrationContext, shape: Rectangle| async move {
                let area: u64 = ctx.schedule_activity_typed("Area", &shape).await?;
                Ok(Rectangle {
                    width: area,
                    height: 2,
                })
            },
        )
        .build();
    let env = TestEnv::start(activities, orchestrations).await;
    let shape = Rectangle {
        width: 3,
        height: 4,
    };
    let client = &env.client;
    client
        .start_orchestration_typed("typed", "Double", shape)
        .await
        .expect("start");
    let output = patiently(async |time| {
        let output = client.wait_for_orchestration_typed::<Rectangle>("typed", time);
        output.await
    });
    let expected = Rectangle {
        width: 12,
        height: 2,
    };
    assert_eq!(output.await.expect("an end"), Ok(expected));
    env.stop().await;
}

#[tokio::test]
async fn a_guid_and_the_time_are_the_same_in_every_replay() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Ask", |ctx: OrchestrationContext, _: String| async move {
            let guid = ctx.new_guid().await?;
            let time = ctx.utc_now().await?;
            // A turn of its own, so that later statements run after a replay.
            ctx.schedule_timer(std::time::Duration::from_millis(20))
                .await;
            let millis = time
                .duration_since(std::time::UNIX_EPOCH)
                .map_err(|error| error.to_string())?
                .as_millis();
            Ok(format!("{guid} {millis}"))
        })
        .build();
    let env = TestEnv::start(no_activities(), orchestrations).await;
    let ended = env.run("ask", "Ask", "").await.expect("an output");
    let recorded: Vec<String> = env
        .history("ask")
        .await
        .into_iter()
        .filter_map(|kind| match kind {
            EventKind::ActivityCompleted { result } => Some(result),
            _ => None,
        })
        .collect();
    assert_eq!(ended, recorded.join(" "));
    env.stop().await;
}
