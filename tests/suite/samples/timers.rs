//! Timers, and races that the first one wins.

use std::time::{Duration, Instant};

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Either3, EventKind, OrchestrationContext, OrchestrationRegistry};

use crate::harness::{TestEnv, no_activities};

const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(300);

fn slow_and_fast() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Slow", |ctx: ActivityContext, _: String| async move {
            ctx.cancelled().await;
            Err::<String, _>("cancelled".to_owned())
        })
        .register("Fast", |_: ActivityContext, _: String| async move {
            Ok("fast".to_owned())
        })
        .build()
}

#[tokio::test]
async fn a_timer_does_not_fire_early() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Sleep", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_timer(SHORT).await;
            Ok("awake".to_owned())
        })
        .build();
    let env = TestEnv::start(no_activities(), orchestrations).await;
    let started = Instant::now();
    let ended = env.run("sleep", "Sleep", "").await;
    assert_eq!(ended.as_deref(), Ok("awake"));
    assert!(started.elapsed() >= SHORT, "{:?}", started.elapsed());
    env.stop().await;
}

#[tokio::test]
async fn timers_fire_in_the_order_of_their_times() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Sleep", |ctx: OrchestrationContext, _: String| async move {
            let timers = [600, 200, 400].map(|ms| ctx.schedule_timer(Duration::from_millis(ms)));
            ctx.join(timers.into()).await;
            Ok("awake".to_owned())
        })
        .build();
    let env = TestEnv::start(no_activities(), orchestrations).await;
    let ended = env.run("sleep", "Sleep", "").await;
    assert_eq!(ended.as_deref(), Ok("awake"));
    let fired: Vec<u64> = env
        .history("sleep")
        .await
        .into_iter()
        .filter_map(|kind| match kind {
            EventKind::TimerFired { fire_at_ms } => Some(fire_at_ms),
            _ => None,
        })
        .collect();
    assert_eq!(fired.len(), 3);
    assert!(fired.is_sorted(), "{fired:?}");
    env.stop().await;
}

#[tokio::test]
async fn the_first_of_activity_event_and_timer_wins() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Race", |ctx: OrchestrationContext, _: String| async move {
            let slow = ctx.schedule_activity("Slow", "");
            let event = ctx.schedule_wait("Ready");
            let timeout = ctx.schedule_timer(LONG);
            match ctx.select3(slow, event, timeout).await {
                Either3::First(answer) => answer,
                Either3::Second(data) => Ok(format!("event {data}")),
                Either3::Third(()) => Err("timed out".to_owned()),
            }
        })
        .build();
    let env = TestEnv::start(slow_and_fast(), orchestrations).await;
    env.begin("race", "Race", "").await;
    env.until_subscribed("race", "Ready").await;
    env.raise("race", "Ready", "now").await;
    assert_eq!(env.end_of("race").await.as_deref(), Ok("event now"));
    env.stop().await;
}
