//! External events: for a waiting instance, or in queues that keep them.

use duroxide::{OrchestrationContext, OrchestrationRegistry};

use crate::harness::{TestEnv, no_activities};

#[tokio::test]
async fn an_event_resumes_the_instance_that_waits_for_it() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Wait", |ctx: OrchestrationContext, _: String| async move {
            let approval = ctx.schedule_wait("Approval").await;
            Ok(format!("approved by {approval}"))
        })
        .build();
    let env = TestEnv::start(no_activities(), orchestrations).await;
    env.begin("order", "Wait", "").await;
    env.until_subscribed("order", "Approval").await;
    // An event of another name does not end the wait.
    for (name, who) in [("Other", "Bob"), ("Approval", "Ada")] {
        env.raise("order", name, who).await;
    }
    assert_eq!(env.end_of("order").await.as_deref(), Ok("approved by Ada"));
    env.stop().await;
}

/// Takes the number of messages in its input from the queue `Orders`.
pub(crate) async fn take(ctx: OrchestrationContext, count: String) -> Result<String, String> {
    let count: usize = count.parse().map_err(|_| "no number".to_owned())?;
    let mut taken = Vec::new();
    for _ in 0..count {
        taken.push(ctx.dequeue_event("Orders").await);
    }
    Ok(taken.join(" "))
}

fn taker() -> OrchestrationRegistry {
    let builder = OrchestrationRegistry::builder();
    builder.register("Take", take).build()
}

#[tokio::test]
async fn an_event_queue_keeps_the_order_and_loses_nothing() {
    let env = TestEnv::start(no_activities(), taker()).await;
    let client = &env.client;
    env.begin("shop", "Take", "10").await;
    let orders: Vec<String> = (0..10).map(|n| format!("order-{n}")).collect();
    for order in &orders {
        ok!(client.enqueue_event("shop", "Orders", &**order));
    }
    assert_eq!(env.end_of("shop").await, Ok(orders.join(" ")));
    env.stop().await;
}

#[tokio::test]
async fn event_queues_do_not_mix() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Sort", |ctx: OrchestrationContext, _: String| async move {
            let (red, blue) = ctx
                .join2(ctx.dequeue_event("Red"), ctx.dequeue_event("Blue"))
                .await;
            let red_again = ctx.dequeue_event("Red").await;
            Ok(format!("{red} {red_again} {blue}"))
        })
        .build();
    let env = TestEnv::start(no_activities(), orchestrations).await;
    let client = &env.client;
    env.begin("sort", "Sort", "").await;
    for (queue, message) in [("Red", "rose"), ("Red", "cherry"), ("Blue", "sky")] {
        ok!(client.enqueue_event("sort", queue, message));
    }
    assert_eq!(env.end_of("sort").await.as_deref(), Ok("rose cherry sky"));
    env.stop().await;
}

#[tokio::test]
async fn an_event_for_an_instance_that_ended_changes_nothing() {
    let env = TestEnv::start(no_activities(), taker()).await;
    assert_eq!(env.run("shop", "Take", "0").await.as_deref(), Ok(""));
    let client = &env.client;
    ok!(client.enqueue_event("shop", "Orders", "late"));
    let run = env.run("other", "Take", "0").await;
    assert_eq!(run.as_deref(), Ok(""));
    assert_eq!(env.end_of("shop").await.as_deref(), Ok(""));
    env.stop().await;
}
