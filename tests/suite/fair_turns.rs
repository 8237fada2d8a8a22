//! Labels that the program derives from the ids of instances.

use cdb_model::Query;
use cdb_provider::documents::{Rule, WorkerItem};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig, InstanceLabel, SearchAttributes};
use duroxide::providers::Provider;
use duroxide::runtime::RuntimeOptions;
use duroxide::{OrchestrationContext, OrchestrationRegistry};

use crate::harness::{TestEnv, no_activities, until_some};
use crate::work_items::activity_of;

/// Labels an instance with the tenant that its id begins with.
fn by_tenant(config: &mut CosmosDBProviderConfig) {
    let tenant = |id: &str| Some(id.split_once(':')?.0.to_owned());
    config.labels = vec![InstanceLabel::new("tenant", tenant)];
}

async fn set(provider: &CosmosDBProvider, select: &str, limit: impl FnOnce(Rule) -> Rule) {
    let rule = Rule::new(select.parse().expect("it is valid"));
    let set = provider.set_limit(limit(rule), "ada").await;
    set.expect("the limit is set");
}

/// Waits until an instance has so many activities.
async fn activities(env: &TestEnv, instance: &str, count: usize) -> Vec<WorkerItem> {
    until_some(async || {
        let query = Query::<WorkerItem>::in_partition(instance);
        let found = env.provider.container().query(query).all().await;
        let found = found.expect("a query");
        (found.len() == count).then(|| found.into_iter().map(|item| item.document).collect())
    })
    .await
}

#[derive(SearchAttributes)]
struct OrderSearch {
    tenant: String,
}

#[tokio::test]
async fn limits_select_activities_by_a_label_that_the_program_derives_from_the_instance_id() {
    // More than a commit holds: some leave in intents.
    const MANY: usize = 150;
    let mut env = TestEnv::with_config(by_tenant).await;
    let order = |ctx: OrchestrationContext, count: String| async move {
        // The label of the instance replaces the attribute.
        let tenant = "umbrella".to_owned();
        OrderSearch { tenant }.set(&ctx)?;
        let count = count.parse().unwrap_or_default();
        let calls = (0..count).map(|_| ctx.schedule_activity("CallBank", ""));
        ctx.join(calls.collect()).await;
        Ok(String::new())
    };
    let orchestrations = OrchestrationRegistry::builder()
        .register("Order", order)
        .build();
    set(&env.provider, "tenant=acme", |rule| rule.running(0)).await;
    let outside = env
        .provider
        .enqueue_for_worker(activity_of("acme:order-1", 2, None));
    outside.await.expect("the activity is stored");
    env.join(no_activities(), orchestrations, RuntimeOptions::default())
        .await;
    env.begin("acme:order-2", "Order", "1").await;
    env.begin("acme:order-3", "Order", &MANY.to_string()).await;
    let mut all = activities(&env, "acme:order-1", 1).await;
    all.extend(activities(&env, "acme:order-2", 1).await);
    all.extend(activities(&env, "acme:order-3", MANY).await);
    for activity in all {
        let id = &activity.instance_id;
        let labels = activity.labels.expect("this version writes labels");
        assert_eq!(labels.attributes["tenant"], "acme", "{id}");
        assert_eq!(
            activity.lock_token, None,
            "{id} is paused, so it is not locked ahead"
        );
    }
    env.stop().await;
}
