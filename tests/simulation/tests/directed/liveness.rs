//! Work that is due is handed out, although other work or another partition is stuck.

use std::time::Duration;

use cdb_emulator::{Effect, Emulator, Fault};
use cdb_provider::MembershipConfig;
use cdb_simulation::{NodeSettings, Scenario};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use tokio::time::{Instant, sleep};

use crate::{output_after, settings, start};

/// The number of physical partitions.
const PARTITIONS: u32 = 20;

/// The time within which overdue work of another share is found.
const FOUND: Duration = Duration::from_secs(30);

fn member(name: &str) -> MembershipConfig {
    MembershipConfig::named(name.to_owned())
}

/// The second member takes no work, like a runtime whose dispatchers are all busy.
#[test]
fn overdue_work_of_another_share_is_found_while_a_partition_is_silent() {
    let emulator = Emulator::builder().physical_partitions(PARTITIONS);
    Scenario::run(emulator, async |scenario| {
        let mut settings = settings();
        settings.provider.membership = Some(member("idle"));
        let idle = scenario.open(2, &settings.provider).await;
        let _idle = idle.expect("the container opens");
        settings.provider.membership = Some(member("busy"));
        let _node = scenario.node(1, &settings).await;
        let (provider, client) = scenario.client().await;
        sleep(Duration::from_secs(30)).await;
        let range_of = async |key: &str| {
            let range = provider.container().range_of(&key.into()).await;
            let range = range.expect("the partitions are listed");
            range.expect("a string is hashed").to_string()
        };
        let roster = range_of("cdb:members").await;
        let silent = if roster == "7" { "8" } else { "7" };
        let fault = Fault::always(Effect::Silence).on_partition(silent);
        scenario.emulator().inject(fault);
        sleep(Duration::from_secs(30)).await;
        let begun = Instant::now();
        let mut started = Vec::new();
        for number in 0..40 {
            let instance = format!("i-{number}");
            if range_of(&instance).await != silent {
                start(&client, &instance, "Hello", &instance).await;
                started.push(instance);
            }
        }
        for instance in started {
            let (_, took) = output_after(&client, &instance, begun).await;
            assert!(took < FOUND, "{instance}: {took:?}");
        }
    });
}

/// Settings of a node with the orchestration `Advance`, whose history needs several pages and grows
/// every 300 ms.
fn advancing() -> NodeSettings {
    let activities = ActivityRegistry::builder()
        .register("Blob", |_: ActivityContext, _: String| async move {
            Ok("x".repeat(1_500_000))
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register(
            "Advance",
            |ctx: OrchestrationContext, _: String| async move {
                for _ in 0..4 {
                    ctx.schedule_activity("Blob", "").await?;
                }
                for _ in 0..400 {
                    ctx.schedule_timer(Duration::from_millis(300)).await;
                }
                Ok("done".to_owned())
            },
        )
        .build();
    NodeSettings::new(orchestrations, activities)
}

#[test]
fn a_load_of_an_instance_that_another_runtime_advances_does_not_keep_a_dispatcher() {
    Scenario::run(Emulator::builder(), async |scenario| {
        let node = scenario.node(1, &advancing()).await;
        start(&node.client(), "advancing", "Advance", "").await;
        sleep(Duration::from_secs(10)).await;
        // The second node also has `Advance`, and its loads take longer than a step of it.
        let mut settings = advancing();
        settings.orchestrations = OrchestrationRegistry::builder_from(&settings.orchestrations)
            .register("Only", |_: OrchestrationContext, _: String| async move {
                Ok("only".to_owned())
            })
            .build();
        settings.runtime.orchestration_concurrency = 1;
        scenario.slow_loads(2, Duration::from_millis(400), Duration::from_secs(600));
        let second = scenario.node(2, &settings).await;
        for number in 0..5 {
            sleep(Duration::from_secs(10)).await;
            starts_within(&second.client(), &format!("only-{number}")).await;
        }
    });
}

async fn starts_within(client: &Client, instance: &str) {
    let begun = Instant::now();
    start(client, instance, "Only", "").await;
    let (_, took) = output_after(client, instance, begun).await;
    assert!(took < Duration::from_secs(20), "{instance}: {took:?}");
}
