//! Sessions: activities that belong together run on one worker.

use std::collections::BTreeSet;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};

use crate::harness::{TestEnv, long_locks};

/// Returns the name of its worker.
fn whereabouts() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Where", |ctx: ActivityContext, _: String| async move {
            let session = ctx.session_id().unwrap_or("none").to_owned();
            Ok(format!("{session}@{}", ctx.worker_id()))
        })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Visit", |ctx: OrchestrationContext, _: String| async move {
            let mut places = Vec::new();
            for _ in 0..6 {
                let place = ctx.schedule_activity_on_session("Where", "", "session");
                places.push(place.await?);
            }
            Ok(places.join(" "))
        })
        .register("Mix", |ctx: OrchestrationContext, _: String| async move {
            let visits = vec![
                ctx.schedule_activity_on_session("Where", "", "red"),
                ctx.schedule_activity("Where", ""),
                ctx.schedule_activity_on_session("Where", "", "blue"),
                ctx.schedule_activity_on_session("Where", "", "red"),
            ];
            let places: Result<Vec<String>, String> = ctx.join(visits).await.into_iter().collect();
            Ok(places?.join(" "))
        })
        .register(
            "Again",
            async |ctx: OrchestrationContext, before: String| {
                let place = ctx
                    .schedule_activity_on_session("Where", "", "session")
                    .await?;
                if before.is_empty() {
                    return ctx.continue_as_new(place).await;
                }
                Ok(format!("{before} {place}"))
            },
        )
        .build()
}

/// Two runtimes with two workers each.
async fn two_runtimes() -> TestEnv {
    let mut env = TestEnv::without_runtime().await;
    for _ in 0..2 {
        let (activities, orchestrations) = (whereabouts(), orchestrations());
        env.join(activities, orchestrations, long_locks()).await;
    }
    env
}

#[tokio::test]
async fn a_session_stays_with_one_of_four_workers() {
    let env = two_runtimes().await;
    let places = env.run("visit", "Visit", "").await.expect("an output");
    let different: BTreeSet<&str> = places.split(' ').collect();
    assert_eq!(different.len(), 1, "{places}");
    assert!(places.starts_with("session@"), "{places}");
    env.stop().await;
}

#[tokio::test]
async fn sessions_and_other_activities_run_side_by_side() {
    let env = two_runtimes().await;
    let places = env.run("mix", "Mix", "").await.expect("an output");
    let places: Vec<&str> = places.split(' ').collect();
    assert_eq!(places[0], places[3], "one session, one worker");
    let sessions: Vec<&str> = places
        .iter()
        .filter_map(|place| place.split_once('@'))
        .map(|(session, _)| session)
        .collect();
    assert_eq!(sessions, ["red", "none", "blue", "red"]);
    env.stop().await;
}

#[tokio::test]
async fn a_session_outlives_the_execution_that_opened_it() {
    let env = two_runtimes().await;
    let places = env.run("again", "Again", "").await.expect("an output");
    let (before, after) = places.split_once(' ').expect("two visits");
    assert_eq!(before, after);
    env.stop().await;
}
