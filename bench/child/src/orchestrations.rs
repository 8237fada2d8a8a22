//! The measured orchestrations, the same for all providers.

use std::time::{Duration, SystemTime};

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use tokio::sync::mpsc;

use crate::clock;

/// An orchestration has reached a point that is timed.
#[derive(Clone, Debug)]
pub struct Reached {
    pub instance: String,
    pub at: SystemTime,
}

/// The receiver of timed points.
pub type Reports = mpsc::UnboundedSender<Reached>;

type Ended = Result<String, String>;

/// The right result of an orchestration.
pub const DONE: &str = "done";

/// The delay of the timers of waiting orchestrations: ten days.
const FAR_AWAY: Duration = Duration::from_hours(240);

/// The name of an event that waiting orchestrations wait for.
pub const GO: &str = "go";

/// One activity, which returns its input.
pub fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Echo", |_: ActivityContext, input: String| async move {
            Ok(input)
        })
        .build()
}

/// All orchestrations. Each reports when it reaches its last statement, so that no client has to
/// poll for its result.
pub fn orchestrations(reports: &Reports) -> OrchestrationRegistry {
    let reports = || reports.clone();
    let (chain, fan, parent, again) = (reports(), reports(), reports(), reports());
    let (waiting, sleeping, long) = (reports(), reports(), reports());
    OrchestrationRegistry::builder()
        .register("Chain", move |ctx, input| {
            run_chain(ctx, input, chain.clone())
        })
        .register("FanOut", move |ctx, input| {
            run_fan_out(ctx, input, fan.clone())
        })
        .register("Parent", move |ctx, input| {
            run_parent(ctx, input, parent.clone())
        })
        .register(
            "Child",
            |ctx: OrchestrationContext, input: String| async move {
                ctx.schedule_activity("Echo", input).await
            },
        )
        .register("Again", move |ctx, input| {
            run_again(ctx, input, again.clone())
        })
        .register("Wait", move |ctx, input| {
            run_wait(ctx, input, waiting.clone())
        })
        .register("Sleep", move |ctx, input| {
            run_sleep(ctx, input, sleeping.clone())
        })
        .register("Long", move |ctx, input| run_long(ctx, input, long.clone()))
        .build()
}

/// One activity after the other.
async fn run_chain(ctx: OrchestrationContext, input: String, reports: Reports) -> Ended {
    for step in 0..number(&input)? {
        ctx.schedule_activity("Echo", step.to_string()).await?;
    }
    Ok(finish(&ctx, &reports))
}

/// All activities at once.
async fn run_fan_out(ctx: OrchestrationContext, input: String, reports: Reports) -> Ended {
    let steps = (0..number(&input)?).map(|step| ctx.schedule_activity("Echo", step.to_string()));
    for result in ctx.join(steps.collect()).await {
        result?;
    }
    Ok(finish(&ctx, &reports))
}

/// All sub-orchestrations at once, each with one activity.
async fn run_parent(ctx: OrchestrationContext, input: String, reports: Reports) -> Ended {
    let steps =
        (0..number(&input)?).map(|step| ctx.schedule_sub_orchestration("Child", step.to_string()));
    for result in ctx.join(steps.collect()).await {
        result?;
    }
    Ok(finish(&ctx, &reports))
}

/// Executions that do nothing but hand over to the next one.
async fn run_again(ctx: OrchestrationContext, input: String, reports: Reports) -> Ended {
    let left = number(&input)?;
    if left > 0 {
        return ctx.continue_as_new((left - 1).to_string()).await;
    }
    Ok(finish(&ctx, &reports))
}

/// Waits for an event.
async fn run_wait(ctx: OrchestrationContext, _: String, reports: Reports) -> Ended {
    pass(&ctx, &reports);
    ctx.schedule_wait(GO).await;
    Ok(finish(&ctx, &reports))
}

/// Waits for a timer of ten days.
async fn run_sleep(ctx: OrchestrationContext, _: String, reports: Reports) -> Ended {
    pass(&ctx, &reports);
    ctx.schedule_timer(FAR_AWAY).await;
    Ok(finish(&ctx, &reports))
}

/// Grows a history by activities, then reports each raised event.
async fn run_long(ctx: OrchestrationContext, input: String, reports: Reports) -> Ended {
    for step in 0..number(&input)? {
        ctx.schedule_activity("Echo", step.to_string()).await?;
    }
    loop {
        pass(&ctx, &reports);
        ctx.schedule_wait(GO).await;
    }
}

fn number(input: &str) -> Result<u32, String> {
    input.parse().map_err(|_| format!("`{input}` is no number"))
}

/// The last statement of an orchestration.
fn finish(ctx: &OrchestrationContext, reports: &Reports) -> String {
    report(ctx, reports);
    DONE.to_owned()
}

/// A statement in the middle, reported once and not by replays.
fn pass(ctx: &OrchestrationContext, reports: &Reports) {
    if !ctx.is_replaying() {
        report(ctx, reports);
    }
}

fn report(ctx: &OrchestrationContext, reports: &Reports) {
    // The receiver is gone when the measurement has ended.
    let _unheard = reports.send(Reached {
        instance: ctx.instance_id(),
        at: clock::now(),
    });
}
