//! Deployments whose code does not replay the running instances.

use std::time::Duration;

use cdb_emulator::Emulator;
use cdb_provider::MembershipConfig;
use cdb_simulation::{NodeSettings, Scenario};
use duroxide::{OrchestrationContext, OrchestrationRegistry};
use tokio::time::{Instant, sleep};

use crate::{output_after, settings, start};

/// The instances of a scenario.
const INSTANCES: usize = 40;

/// The longest time until an instance that has been held continues: the backoff of a process that
/// tried it, and the search of another one for overdue work.
const CONTINUES: Duration = Duration::from_secs(60 + 15);

/// Returns the settings of nodes whose `Steps` begins with other activities.
fn changed() -> NodeSettings {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Steps", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_activity("Echo", "changed").await
        })
        .build();
    NodeSettings {
        orchestrations,
        ..settings()
    }
}

fn as_member(settings: NodeSettings, number: u32) -> NodeSettings {
    let mut settings = settings;
    settings.provider.membership = Some(MembershipConfig::named(format!("node-{number}")));
    settings
}

/// Two of four nodes get code that does not replay what runs, and one of the others dies. Nothing
/// fails, and all instances end after the rollback.
#[test]
fn a_half_changed_deployment_fails_nothing_and_all_instances_end_after_the_rollback() {
    for members in [false, true] {
        Scenario::run(
            Emulator::builder().physical_partitions(4),
            async move |scenario| {
                let node = async |number, settings: NodeSettings| {
                    let settings = if members {
                        as_member(settings, number)
                    } else {
                        settings
                    };
                    scenario.node(number, &settings).await
                };
                let old = [node(1, settings()).await, node(2, settings()).await];
                let (_, client) = scenario.client().await;
                for number in 0..INSTANCES {
                    start(&client, &format!("steps-{number}"), "Steps", "").await;
                }
                // Every instance has begun, and none has ended.
                sleep(Duration::from_secs(4)).await;
                let changed = [node(3, changed()).await, node(4, changed()).await];
                let [dies, stays] = old;
                dies.kill().await;
                sleep(Duration::from_secs(3)).await;
                stays.kill().await;
                // Only changed code is left.
                sleep(Duration::from_secs(300)).await;
                for node in changed {
                    node.kill().await;
                }
                let rolled_back = Instant::now();
                let _old = [node(5, settings()).await, node(6, settings()).await];
                for number in 0..INSTANCES {
                    let id = format!("steps-{number}");
                    let (done, took) = output_after(&client, &id, rolled_back).await;
                    assert_eq!(done, "done", "{id}");
                    assert!(took < CONTINUES, "{id} took {took:?}");
                }
            },
        );
    }
}
