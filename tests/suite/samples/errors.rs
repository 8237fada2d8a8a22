//! Failures of activities.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};

use crate::harness::TestEnv;

fn bank() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Debit", |_: ActivityContext, account: String| async move {
            Ok(format!("debited {account}"))
        })
        .register("Credit", |_: ActivityContext, account: String| async move {
            if account == "closed" {
                return Err(format!("account {account} does not exist"));
            }
            Ok(format!("credited {account}"))
        })
        .build()
}

#[tokio::test]
async fn an_activity_s_failure_fails_the_instance_that_does_not_catch_it() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Transfer", async |ctx: OrchestrationContext, to: String| {
            let debit = ctx.schedule_activity("Debit", "mine").await?;
            let credit = ctx.schedule_activity("Credit", to).await?;
            Ok(format!("{debit}, {credit}"))
        })
        .build();
    let env = TestEnv::start(bank(), orchestrations).await;
    let ended = env.run("good", "Transfer", "yours").await;
    assert_eq!(ended.as_deref(), Ok("debited mine, credited yours"));
    let error = env.run("bad", "Transfer", "closed").await;
    let error = error.expect_err("a closed account cannot be credited");
    assert_eq!(error.category(), "application");
    let message = error.display_message();
    says!(message, "account closed does not exist");
    let instances = env.client.list_instances_by_status("Failed").await;
    assert_eq!(instances.expect("a list"), ["bad"]);
    env.stop().await;
}
