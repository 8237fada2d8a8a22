//! Orchestrations that start others, and wait for them or detach them.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};

use crate::harness::{TestEnv, no_activities};

fn upper() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Upper", |_: ActivityContext, text: String| async move {
            Ok(text.to_uppercase())
        })
        .build()
}

async fn child(ctx: OrchestrationContext, text: String) -> Result<String, String> {
    ctx.schedule_activity("Upper", text).await
}

#[tokio::test]
async fn a_parent_waits_for_its_child() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Child", child)
        .register(
            "Parent",
            async |ctx: OrchestrationContext, input: String| {
                let answer = ctx.schedule_sub_orchestration("Child", input).await?;
                Ok(format!("the child says {answer}"))
            },
        )
        .build();
    let env = TestEnv::start(upper(), orchestrations).await;
    let ended = env.run("parent", "Parent", "hi").await;
    assert_eq!(ended.as_deref(), Ok("the child says HI"));
    let tree = env.client.get_instance_tree("parent").await;
    let tree = tree.expect("the tree of a parent");
    assert_eq!(tree.root_id, "parent");
    assert_eq!(tree.all_ids.len(), 2, "{tree:?}");
    env.stop().await;
}

#[tokio::test]
async fn a_parent_gets_the_result_of_its_child_s_last_execution() {
    let orchestrations = OrchestrationRegistry::builder()
        .register(
            "Countdown",
            async |ctx: OrchestrationContext, input: String| {
                let left: u32 = input.parse().map_err(|_| "no number".to_owned())?;
                if left > 0 {
                    return ctx.continue_as_new((left - 1).to_string()).await;
                }
                Ok("lift-off".to_owned())
            },
        )
        .register(
            "Parent",
            async |ctx: OrchestrationContext, input: String| {
                ctx.schedule_sub_orchestration_with_id("Countdown", "countdown", input)
                    .await
            },
        )
        .build();
    let env = TestEnv::start(no_activities(), orchestrations).await;
    let ended = env.run("parent", "Parent", "3").await;
    assert_eq!(ended.as_deref(), Ok("lift-off"));
    let executions = env.client.list_executions("countdown").await;
    assert_eq!(executions.expect("executions"), [1, 2, 3, 4]);
    env.stop().await;
}

#[tokio::test]
async fn detached_orchestrations_run_independently() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Child", child)
        .register(
            "Coordinator",
            async |ctx: OrchestrationContext, _: String| {
                ctx.schedule_orchestration("Child", "first", "one");
                ctx.schedule_orchestration("Child", "second", "two");
                ctx.schedule_activity("Upper", "scheduled").await
            },
        )
        .build();
    let env = TestEnv::start(upper(), orchestrations).await;
    let ended = env.run("coordinator", "Coordinator", "").await;
    assert_eq!(ended.as_deref(), Ok("SCHEDULED"));
    assert_eq!(env.end_of("first").await.as_deref(), Ok("ONE"));
    assert_eq!(env.end_of("second").await.as_deref(), Ok("TWO"));
    let info = env.client.get_instance_info("first").await;
    assert_eq!(info.expect("an instance").parent_instance_id, None);
    env.stop().await;
}

#[tokio::test]
async fn a_child_s_failure_reaches_its_parent() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Child", |_: OrchestrationContext, _: String| async move {
            Err::<String, _>("no bread".to_owned())
        })
        .register(
            "Parent",
            async |ctx: OrchestrationContext, _: String| match ctx
                .schedule_sub_orchestration("Child", "")
                .await
            {
                Ok(answer) => Err(format!("unexpected {answer}")),
                Err(reason) => Ok(format!("the child failed: {reason}")),
            },
        )
        .build();
    let env = TestEnv::start(no_activities(), orchestrations).await;
    let ended = env.run("parent", "Parent", "").await.expect("an output");
    assert!(ended.contains("no bread"), "{ended}");
    env.stop().await;
}
