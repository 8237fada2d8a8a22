//! The orchestrations of a simulation: those of the chaos suite, and some that need days.

use std::time::Duration;

use cdb_chaos::Ledger;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};

use crate::conserved;
use crate::limited;
use crate::pauses::{CIRCLE, PAUSED};

/// The time of one execution of an eternal orchestration.
pub(crate) const TICK: Duration = Duration::from_secs(3600);

/// The activities, which book in `ledger`, and those of single workloads.
pub(crate) fn activities(ledger: &Ledger, of_workloads: [ActivityRegistry; 4]) -> ActivityRegistry {
    let mut builder = ActivityRegistry::builder_from(&cdb_chaos::activities(ledger));
    for own in of_workloads {
        builder = builder.merge(own);
    }
    builder
        .register("Blob", |_: ActivityContext, length: String| async move {
            Ok("x".repeat(number(&length)?))
        })
        .register("Length", |_: ActivityContext, blob: String| async move {
            Ok(blob.len().to_string())
        })
        .build()
}

/// The orchestrations of a node with so many deployments.
pub(crate) fn orchestrations(deployed: u32) -> OrchestrationRegistry {
    let builder = OrchestrationRegistry::builder_from(&cdb_chaos::orchestrations());
    conserved::register(builder, deployed)
        .register("Eternal", run_eternal)
        .register(
            "Delay",
            |ctx: OrchestrationContext, seconds: String| async move {
                let seconds = number(&seconds)? as u64;
                ctx.schedule_timer(Duration::from_secs(seconds)).await;
                Ok("later".to_owned())
            },
        )
        .register(
            "Large",
            |ctx: OrchestrationContext, length: String| async move {
                let blob = ctx.schedule_activity("Blob", length).await?;
                ctx.schedule_activity("Length", blob).await
            },
        )
        .register("Once", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_activity("Echo", "once").await
        })
        .register(
            "Collect",
            |ctx: OrchestrationContext, count: String| async move {
                for _ in 0..number(&count)? {
                    ctx.dequeue_event("Events").await;
                }
                Ok(count)
            },
        )
        .register(
            "Parting",
            |ctx: OrchestrationContext, child: String| async move {
                ctx.schedule_orchestration("Once", child, "");
                Ok("parted".to_owned())
            },
        )
        .register(
            "Life",
            |ctx: OrchestrationContext, life: String| async move {
                ctx.schedule_activity("Book", format!("{life}:1")).await?;
                Ok(life)
            },
        )
        .merge(limited::orchestrations())
        .register(PAUSED, run_paused)
        .register(CIRCLE, run_circle)
        .register(
            "Rest",
            |ctx: OrchestrationContext, millis: String| async move {
                ctx.schedule_activity("Pause", millis).await?;
                ctx.schedule_activity("Echo", "rested").await
            },
        )
        .build()
}

/// Runs more activities at a time than few nodes have workers, so that some wait when it is paused.
async fn run_paused(ctx: OrchestrationContext, instance: String) -> Result<String, String> {
    for _ in 0..3 {
        let all = (0..20).map(|_| ctx.schedule_activity(PAUSED, &*instance));
        for ended in ctx.join(all.collect()).await {
            ended?;
        }
        ctx.schedule_timer(Duration::from_secs(5)).await;
    }
    Ok("resumed".to_owned())
}

/// Waits for the other instance of a pair, which waits for this one.
async fn run_circle(ctx: OrchestrationContext, other: String) -> Result<String, String> {
    let own = ctx.instance_id();
    ctx.schedule_sub_orchestration_with_id(CIRCLE, other, own)
        .await
}

/// Books its number and runs a child every hour, until it is cancelled.
async fn run_eternal(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let tick = number(&input)?;
    ctx.schedule_activity("Book", format!("tick-{tick}:1"))
        .await?;
    ctx.schedule_sub_orchestration("Child", tick.to_string())
        .await?;
    ctx.schedule_timer(TICK).await;
    ctx.continue_as_new((tick + 1).to_string()).await
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}
