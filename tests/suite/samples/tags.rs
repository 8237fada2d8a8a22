//! Tags: activities that only some workers may run.

use std::time::Duration;

use duroxide::runtime::RuntimeOptions;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Either2, EventKind, OrchestrationContext, OrchestrationRegistry, TagFilter,
};

use crate::harness::{TestEnv, long_locks};

fn studio() -> ActivityRegistry {
    let step = |name: &'static str| {
        move |_: ActivityContext, input: String| async move { Ok(format!("{name} {input}")) }
    };
    ActivityRegistry::builder()
        .register("Render", step("rendered"))
        .register("Encode", step("encoded"))
        .register("Upload", step("uploaded"))
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Film", async |ctx: OrchestrationContext, scene: String| {
            let scene = ctx
                .schedule_activity("Render", scene)
                .with_tag("gpu")
                .await?;
            let scene = ctx
                .schedule_activity("Encode", scene)
                .with_tag("cpu")
                .await?;
            ctx.schedule_activity("Upload", scene).await
        })
        .register("Hurry", async |ctx: OrchestrationContext, scene: String| {
            let render = ctx.schedule_activity("Render", &*scene).with_tag("gpu");
            let timeout = ctx.schedule_timer(Duration::from_millis(300));
            match ctx.select2(render, timeout).await {
                Either2::First(rendered) => rendered,
                Either2::Second(()) => ctx.schedule_activity("Upload", scene).await,
            }
        })
        .build()
}

fn workers(tags: TagFilter) -> RuntimeOptions {
    RuntimeOptions {
        worker_tag_filter: tags,
        ..long_locks()
    }
}

#[tokio::test]
async fn a_worker_for_several_tags_runs_them_all() {
    let mut env = TestEnv::without_runtime().await;
    let options = workers(TagFilter::default_and(["gpu", "cpu"]));
    env.join(studio(), orchestrations(), options).await;
    let ended = env.run("film", "Film", "scene").await;
    assert_eq!(ended.as_deref(), Ok("uploaded encoded rendered scene"));
    let history = env.history("film").await;
    let tags: Vec<Option<&str>> = history
        .iter()
        .filter_map(|kind| match kind {
            EventKind::ActivityScheduled { tag, .. } => Some(tag.as_deref()),
            _ => None,
        })
        .collect();
    assert_eq!(tags, [Some("gpu"), Some("cpu"), None]);
    env.stop().await;
}

#[tokio::test]
async fn specialists_and_generalists_finish_together() {
    let mut env = TestEnv::without_runtime().await;
    let specialist = RuntimeOptions {
        orchestration_concurrency: 0,
        ..workers(TagFilter::tags(["gpu"]))
    };
    let generalist = workers(TagFilter::default_and(["cpu"]));
    for options in [specialist, generalist] {
        env.join(studio(), orchestrations(), options).await;
    }
    let ended = env.run("film", "Film", "scene").await;
    assert_eq!(ended.as_deref(), Ok("uploaded encoded rendered scene"));
    env.stop().await;
}
