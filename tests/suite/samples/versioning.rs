//! Versions of one orchestration, side by side.

use duroxide::{OrchestrationContext, OrchestrationRegistry};

use crate::harness::{TestEnv, no_activities};

/// Two versions of `Tell`, which return their version. `Parent` starts one as a child.
fn registry() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Tell", |_: OrchestrationContext, _: String| async move {
            Ok("one".to_owned())
        })
        .register_versioned(
            "Tell",
            "2.0.0",
            |_: OrchestrationContext, _: String| async move { Ok("two".to_owned()) },
        )
        .register("Parent", async |ctx: OrchestrationContext, _: String| {
            let old = Some("1.0.0".to_owned());
            let old = ctx.schedule_sub_orchestration_versioned("Tell", old, "");
            let newest = ctx.schedule_sub_orchestration("Tell", "");
            let (old, newest) = ctx.join2(old, newest).await;
            Ok(format!("{} {}", old?, newest?))
        })
        .build()
}

#[tokio::test]
async fn the_newest_version_is_started_unless_another_is_named() {
    let env = TestEnv::start(no_activities(), registry()).await;
    assert_eq!(env.run("newest", "Tell", "").await.as_deref(), Ok("two"));
    env.client
        .start_orchestration_versioned("old", "Tell", "1.0.0", "")
        .await
        .expect("start");
    assert_eq!(env.end_of("old").await.as_deref(), Ok("one"));
    let info = env.client.get_instance_info("old").await;
    assert_eq!(info.expect("an instance").orchestration_version, "1.0.0");
    env.stop().await;
}

#[tokio::test]
async fn children_follow_the_policy_unless_their_version_is_named() {
    let env = TestEnv::start(no_activities(), registry()).await;
    let ended = env.run("parent", "Parent", "").await;
    assert_eq!(ended.as_deref(), Ok("one two"));
    env.stop().await;
}

#[tokio::test]
async fn continue_as_new_moves_an_instance_to_the_newest_version() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Long", async |ctx: OrchestrationContext, state: String| {
            ctx.continue_as_new(format!("{state} from one")).await
        })
        .register_versioned(
            "Long",
            "2.0.0",
            |_: OrchestrationContext, state: String| async move { Ok(format!("{state} to two")) },
        )
        .build();
    let env = TestEnv::start(no_activities(), orchestrations).await;
    env.client
        .start_orchestration_versioned("long", "Long", "1.0.0", "state")
        .await
        .expect("start");
    let ended = env.end_of("long").await;
    assert_eq!(ended.as_deref(), Ok("state from one to two"));
    let info = env.client.get_instance_info("long").await;
    assert_eq!(info.expect("an instance").orchestration_version, "2.0.0");
    env.stop().await;
}
