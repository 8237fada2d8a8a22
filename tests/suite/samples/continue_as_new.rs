//! Continue-as-new: an instance continues with a short history.

use duroxide::providers::PruneOptions;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, EventKind, OrchestrationContext, OrchestrationRegistry};

use crate::harness::{TestEnv, no_activities};

#[tokio::test]
async fn twenty_executions_each_keep_their_own_history() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Count", |ctx: OrchestrationContext, n: String| async move {
            let n: u32 = n.parse().map_err(|_| "no number".to_owned())?;
            if n < 20 {
                return ctx.continue_as_new((n + 1).to_string()).await;
            }
            Ok(n.to_string())
        })
        .build();
    let env = TestEnv::start(no_activities(), orchestrations).await;
    assert_eq!(env.run("count", "Count", "1").await.as_deref(), Ok("20"));
    let executions = env.client.list_executions("count").await;
    assert_eq!(
        executions.expect("executions"),
        (1..=20).collect::<Vec<u64>>()
    );
    let third = env.client.read_execution_history("count", 3).await;
    let third: Vec<EventKind> = third
        .expect("a history")
        .into_iter()
        .map(|event| event.kind)
        .collect();
    assert!(
        matches!(&third[0], EventKind::OrchestrationStarted { input, .. } if input == "3"),
        "{third:?}"
    );
    assert!(
        matches!(third.last(), Some(EventKind::OrchestrationContinuedAsNew { input }) if input == "4"),
        "{third:?}"
    );
    let info = env.client.get_execution_info("count", 3).await;
    assert_eq!(info.expect("an execution").status, "ContinuedAsNew");
    env.stop().await;
}

#[tokio::test]
async fn unread_messages_move_to_the_next_execution() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Read", async |ctx: OrchestrationContext, read: String| {
            let message = ctx.dequeue_event("Inbox").await;
            let read = format!("{read}{message}");
            if read.len() < 5 {
                return ctx.continue_as_new(read).await;
            }
            Ok(read)
        })
        .build();
    let env = TestEnv::start(no_activities(), orchestrations).await;
    let client = &env.client;
    env.begin("inbox", "Read", "").await;
    for message in ["a", "b", "c", "d", "e"] {
        ok!(client.enqueue_event("inbox", "Inbox", message));
    }
    assert_eq!(env.end_of("inbox").await.as_deref(), Ok("abcde"));
    env.stop().await;
}

#[tokio::test]
async fn an_endless_orchestration_can_prune_its_own_past() {
    let activities = ActivityRegistry::builder()
        .register("Prune", |ctx: ActivityContext, _: String| async move {
            let options = PruneOptions {
                keep_last: Some(1),
                ..PruneOptions::default()
            };
            let client = ctx.get_client();
            let pruned = client.prune_executions(ctx.instance_id(), options).await;
            let pruned = pruned.map_err(|error| error.to_string())?;
            Ok(pruned.executions_deleted.to_string())
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register(
            "Endless",
            async |ctx: OrchestrationContext, pruned: String| {
                let more = ctx.schedule_activity("Prune", "").await?;
                let pruned = format!("{pruned}{more}");
                if pruned.len() < 4 {
                    return ctx.continue_as_new(pruned).await;
                }
                Ok(pruned)
            },
        )
        .build();
    let env = TestEnv::start(activities, orchestrations).await;
    let ended = env.run("endless", "Endless", "").await;
    assert_eq!(ended.as_deref(), Ok("0111"));
    let executions = env.client.list_executions("endless").await;
    assert_eq!(executions.expect("executions"), [4]);
    env.stop().await;
}
