//! Directed simulations: real runtimes in virtual time, and faults at chosen times.
#![cfg(target_os = "linux")]

mod core_faults;
mod deployments;
mod partition_failover;
mod promises;

use std::time::Duration;

use cdb_simulation::NodeSettings;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
};
use tokio::time::{Instant, sleep};

/// The longest virtual time that a test waits for an end.
const PATIENCE: Duration = Duration::from_secs(600);

/// Returns settings of nodes that run `Hello`, `Steps`, `Rest` and `Parent`.
fn settings() -> NodeSettings {
    let activities = ActivityRegistry::builder()
        .register("Echo", |_: ActivityContext, input: String| async move {
            Ok(input)
        })
        .register("Rest", |ctx: ActivityContext, seconds: String| async move {
            let seconds = seconds.parse().map_err(|_| "no number".to_owned())?;
            tokio::select! {
                () = sleep(Duration::from_secs(seconds)) => Ok(seconds.to_string()),
                () = ctx.cancelled() => Err("cancelled".to_owned()),
            }
        });
    let mut settings = NodeSettings::new(orchestrations(), activities.build());
    // Its gauges query every partition once a minute.
    settings.runtime.observability.gauge_poll_interval = Duration::from_secs(24 * 3600);
    settings
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register(
            "Hello",
            |ctx: OrchestrationContext, name: String| async move {
                ctx.schedule_activity("Echo", name).await
            },
        )
        .register("Steps", |ctx: OrchestrationContext, _: String| async move {
            for step in 0..5 {
                ctx.schedule_activity("Echo", step.to_string()).await?;
                ctx.schedule_timer(Duration::from_secs(2)).await;
            }
            Ok("done".to_owned())
        })
        .register(
            "Rest",
            |ctx: OrchestrationContext, seconds: String| async move {
                ctx.schedule_activity("Rest", seconds).await
            },
        )
        .register(
            "Parent",
            |ctx: OrchestrationContext, child: String| async move {
                ctx.schedule_sub_orchestration_with_id("Hello", child, "child")
                    .await
            },
        )
        .build()
}

async fn start(client: &Client, instance: &str, name: &str, input: &str) {
    let started = client.start_orchestration(instance, name, input).await;
    started.expect("the instance starts");
}

/// Returns the output of an instance.
async fn output(client: &Client, instance: &str) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match client.get_orchestration_status(instance).await {
            Ok(OrchestrationStatus::Completed { output, .. }) => return output,
            Ok(OrchestrationStatus::Failed { details, .. }) => {
                panic!("{instance} failed: {}", details.display_message())
            }
            other => assert!(Instant::now() < deadline, "{instance}: {other:?}"),
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Returns the output of an instance, and the time since `begun`.
async fn output_after(client: &Client, instance: &str, begun: Instant) -> (String, Duration) {
    let output = output(client, instance).await;
    (output, begun.elapsed())
}
