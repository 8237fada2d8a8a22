//! Search attributes: orchestrations set them, every commit stores them, searches find them.

use std::collections::BTreeMap;
use std::sync::Arc;

use cdb_provider::documents::{AttributeValue, Instance, InstanceKey, Status};
use cdb_provider::model::query::Filter;
use cdb_provider::model::query::statement::RawSql;
use cdb_provider::model::{Document as _, Timestamp};
use cdb_provider::payload::Encryption;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig, SearchAttributes};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{EventKind, OrchestrationContext, OrchestrationRegistry};
use serde_json::json;
use tokio::sync::watch;

use crate::harness::{TestEnv, eventually, long_locks, no_activities};

/// The reserved key of the key-value store.
const KEY: &str = "cdb:search-attributes";

#[derive(SearchAttributes, Clone, Debug, PartialEq)]
struct OrderSearch {
    customer: String,
    total: f64,
    due: Timestamp,
    paid: bool,
    coupon: Option<String>,
}

fn order(customer: &str, total: f64) -> OrderSearch {
    OrderSearch {
        customer: customer.to_owned(),
        total,
        due: Timestamp::from_millis(1_800_000_000_000),
        paid: false,
        coupon: None,
    }
}

async fn pay(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let (customer, total) = input.split_once(' ').ok_or("no total")?;
    let total = total.parse().map_err(|_| "no number")?;
    order(customer, total).set(&ctx)?;
    ctx.schedule_wait("paid").await;
    let mut attributes = OrderSearch::get(&ctx)?.ok_or("no attributes")?;
    attributes.paid = true;
    attributes.set(&ctx)?;
    Ok(String::new())
}

/// Sets attributes in the first of two executions.
async fn again(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    if input == "first" {
        order("ada", 1.0).set(&ctx)?;
        return ctx.continue_as_new("second").await;
    }
    let kept = OrderSearch::get(&ctx)?.ok_or("no attributes")?;
    Ok(kept.customer)
}

/// Waits for an event before and after it changes the key-value store.
async fn change(ctx: OrchestrationContext, change: String) -> Result<String, String> {
    order("ada", 1.0).set(&ctx)?;
    ctx.schedule_wait("go").await;
    match &*change {
        "clear" => ctx.clear_all_kv_values(),
        "too long" => order(&"x".repeat(257), 1.0).set(&ctx)?,
        // Not by the derive: invalid attributes are left out.
        "raw" => ctx.set_kv_value(
            KEY,
            json!({ "a": [1], "b": 2, "c": "x".repeat(257) }).to_string(),
        ),
        "garbage" => ctx.set_kv_value(KEY, "no JSON"),
        _ => ctx.set_kv_value("other", "value"),
    }
    ctx.schedule_wait("end").await;
    Ok(String::new())
}

/// Sets attributes before an activity, after its failure and after its success.
async fn fail(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    order("before", 1.0).set(&ctx)?;
    let broken = ctx.schedule_activity("Break", "").await;
    let end = if broken.is_ok() { "success" } else { "failure" };
    order(end, 1.0).set(&ctx)?;
    broken
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Pay", pay)
        .register("Again", again)
        .register("Change", change)
        .register("Fail", fail)
        .build()
}

async fn env() -> TestEnv {
    TestEnv::start(no_activities(), orchestrations()).await
}

async fn stored(provider: &CosmosDBProvider, id: &str) -> Instance {
    let found = provider.container().read(&InstanceKey::new(id)).await;
    found.expect("a read").expect("it exists").document
}

/// Returns the ids of the found instances, newest first.
async fn found(provider: &CosmosDBProvider, filter: Filter<Instance>) -> Vec<String> {
    let page = provider.instances_where(filter).page(10, None).await;
    let rows = page.expect("a page").rows.into_iter();
    rows.map(|instance| instance.instance_id).collect()
}

async fn start(env: &TestEnv, id: &str, orchestration: &str, input: &str, event: &str) {
    env.begin(id, orchestration, input).await;
    env.until_subscribed(id, event).await;
}

async fn raise(env: &TestEnv, id: &str, event: &str) {
    env.raise(id, event, "").await;
}

#[tokio::test]
async fn instances_are_found_sorted_and_counted_by_their_attributes() {
    let env = env().await;
    let orders = [
        ("a", "ada 10"),
        ("b", "ada 120.5"),
        ("c", "bob 300"),
        ("d", "ada 250"),
    ];
    for (id, input) in orders {
        start(&env, id, "Pay", input, "paid").await;
    }
    let provider = &env.provider;
    let of_ada = || OrderSearch::CUSTOMER.eq("ada");
    let large = of_ada() & OrderSearch::TOTAL.gt(100.0) & OrderSearch::PAID.eq(false);
    assert_eq!(found(provider, large.clone()).await, ["d", "b"]);
    assert_eq!(found(provider, OrderSearch::TOTAL.eq(120.5)).await, ["b"]);
    assert_eq!(
        found(provider, OrderSearch::CUSTOMER.starts_with("b")).await,
        ["c"]
    );
    assert_eq!(found(provider, OrderSearch::COUPON.eq("x")).await, [""; 0]);
    let without = of_ada() & !OrderSearch::COUPON.is_defined();
    let count = provider.instances_where(without).count().await;
    assert_eq!(count.expect("a count"), 3);
    // Attributes and other properties of an instance combine.
    let running = of_ada() & Instance::STATUS.eq(Status::Running);
    assert_eq!(found(provider, running.clone()).await, ["d", "b", "a"]);

    let by_total = || {
        provider
            .instances_where(of_ada())
            .order_by(OrderSearch::TOTAL.asc())
    };
    let first = by_total().page(2, None).await.expect("a page");
    let last = ok!(by_total().page(2, first.next.as_ref()));
    let pages = [first.rows, last.rows].concat();
    let totals = pages
        .iter()
        .map(|found| OrderSearch::of(found).expect("typed").total);
    assert_eq!(totals.collect::<Vec<_>>(), [10.0, 120.5, 250.0]);
    assert_eq!(OrderSearch::of(&pages[0]), Ok(order("ada", 10.0)));

    raise(&env, "d", "paid").await;
    env.end_of("d").await.expect("it completes");
    assert_eq!(found(provider, large).await, ["b"]);
    assert_eq!(found(provider, running).await, ["b", "a"]);
    // The attributes of an ended instance remain.
    assert_eq!(found(provider, OrderSearch::PAID.eq(true)).await, ["d"]);
    env.stop().await;
}

#[tokio::test]
async fn attributes_survive_continue_as_new() {
    let env = env().await;
    let output = env.run("again", "Again", "first").await;
    assert_eq!(output.expect("it completes"), "ada");
    let instance = stored(&env.provider, "again").await;
    assert_eq!(instance.current_execution_id, 2);
    assert_eq!(OrderSearch::of(&instance), Ok(order("ada", 1.0)));
    env.stop().await;
}

#[tokio::test]
async fn a_commit_stores_the_visible_attributes_and_leaves_invalid_ones_out() {
    let env = env().await;
    let unchanged: BTreeMap<_, _> = order("ada", 1.0)
        .to_values()
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect();
    let valid = [("b".to_owned(), AttributeValue::Number(2.0))].into();
    for (id, expected) in [
        ("clear", BTreeMap::new()),
        ("raw", valid),
        ("garbage", BTreeMap::new()),
        ("other", unchanged.clone()),
    ] {
        start(&env, id, "Change", id, "go").await;
        assert_eq!(stored(&env.provider, id).await.attributes, unchanged);
        raise(&env, id, "go").await;
        env.until_subscribed(id, "end").await;
        assert_eq!(stored(&env.provider, id).await.attributes, expected, "{id}");
        raise(&env, id, "end").await;
        env.end_of(id).await.expect("it completes");
        assert_eq!(stored(&env.provider, id).await.attributes, expected, "{id}");
    }
    // The document of an instance without attributes has its former form.
    let documents = RawSql::<serde_json::Value>::new("SELECT * FROM c").in_partition("clear");
    let documents = env.provider.container().query(documents).all().await;
    let documents = documents.expect("documents");
    let of_instance = documents
        .iter()
        .find(|document| document["type"] == "instance");
    assert!(of_instance.expect("the instance")["attributes"].is_null());
    env.stop().await;
}

#[tokio::test]
async fn a_refused_set_keeps_the_earlier_attributes() {
    let env = env().await;
    start(&env, "long", "Change", "too long", "go").await;
    raise(&env, "long", "go").await;
    let failure = env.end_of("long").await.expect_err("it is refused");
    let message = failure.display_message();
    assert!(message.contains("`customer` has 257 bytes"), "{message}");
    let kept = OrderSearch::of(&stored(&env.provider, "long").await);
    assert_eq!(kept, Ok(order("ada", 1.0)));
    env.stop().await;
}

#[tokio::test]
async fn a_commit_restores_attributes_that_an_older_version_has_dropped() {
    let env = env().await;
    start(&env, "old", "Pay", "ada 10", "paid").await;
    let container = env.provider.container();
    let read = container.read(&InstanceKey::new("old")).await;
    let mut instance = read.expect("a read").expect("it exists");
    // An older version replaces the document without the member.
    instance.document.attributes.clear();
    ok!(container.run(instance.document.replace()));
    assert_eq!(
        found(&env.provider, OrderSearch::CUSTOMER.eq("ada")).await,
        [""; 0]
    );
    raise(&env, "old", "paid").await;
    eventually(async || {
        !found(&env.provider, OrderSearch::PAID.eq(true))
            .await
            .is_empty()
    })
    .await;
    let restored = OrderSearch::of(&stored(&env.provider, "old").await);
    assert_eq!(restored.expect("typed").customer, "ada");
    env.stop().await;
}

#[tokio::test]
async fn attributes_are_found_when_payloads_are_encrypted() {
    let encryption = Encryption::new("k1", &[1; 32]).expect("a key");
    let codec = |config: &mut CosmosDBProviderConfig| {
        config.payload_codec = Some(Arc::new(encryption));
    };
    let mut env = TestEnv::with_config(codec).await;
    env.join(no_activities(), orchestrations(), long_locks())
        .await;
    start(&env, "secret", "Pay", "ada 10", "paid").await;
    assert_eq!(
        found(&env.provider, OrderSearch::TOTAL.eq(10.0)).await,
        ["secret"]
    );
    raise(&env, "secret", "paid").await;
    env.end_of("secret").await.expect("it completes");
    assert_eq!(
        found(&env.provider, OrderSearch::PAID.eq(true)).await,
        ["secret"]
    );
    env.stop().await;
}

#[tokio::test]
async fn a_replay_sets_the_attributes_once() {
    let mut env = env().await;
    start(&env, "replayed", "Pay", "ada 10", "paid").await;
    env.kill_runtimes().await;
    env.join(no_activities(), orchestrations(), long_locks())
        .await;
    raise(&env, "replayed", "paid").await;
    env.end_of("replayed").await.expect("it completes");
    let history = env.history("replayed").await;
    let sets = history
        .iter()
        .filter(|kind| matches!(kind, EventKind::KeyValueSet { key, .. } if key == KEY));
    assert_eq!(sets.count(), 2);
    env.stop().await;
}

/// The activity `Break`, and its result: it waits for one.
fn breaking() -> (
    ActivityRegistry,
    watch::Sender<Option<Result<String, String>>>,
) {
    let (allow, allowed) = watch::channel(None);
    let activities = ActivityRegistry::builder().register("Break", move |_, _: String| {
        let mut allowed = allowed.clone();
        async move {
            let result = allowed.wait_for(Option::is_some).await;
            let result = result.map_err(|error| error.to_string())?;
            result.clone().unwrap_or_else(|| Err(String::new()))
        }
    });
    (activities.build(), allow)
}

/// Returns the customer among the stored attributes of instance `i`.
async fn customer(env: &TestEnv) -> Option<AttributeValue> {
    let mut instance = stored(&env.provider, "i").await;
    instance.attributes.remove("customer")
}

#[tokio::test]
async fn a_rewind_restores_the_attributes_from_before_the_failure() {
    let (activities, allow) = breaking();
    let env = TestEnv::start(activities, orchestrations()).await;
    let is = |value: &str| Some(AttributeValue::String(value.to_owned()));
    allow.send_replace(Some(Err("broken".to_owned())));
    env.run("i", "Fail", "").await.expect_err("it is broken");
    assert_eq!(customer(&env).await, is("failure"));
    allow.send_replace(None);
    ok!(env.provider.rewind("i", "ada"));
    assert_eq!(customer(&env).await, is("before"));
    allow.send_replace(Some(Ok("done".to_owned())));
    assert_eq!(env.end_of("i").await.as_deref(), Ok("done"));
    assert_eq!(customer(&env).await, is("success"));
    env.stop().await;
}

#[tokio::test]
async fn a_rewind_without_the_key_keeps_the_attributes() {
    let encryption = Encryption::new("k1", &[1; 32]).expect("a key");
    let codec = Arc::new(encryption);
    let mut env = TestEnv::with_config(|config| config.payload_codec = Some(codec)).await;
    let (activities, allow) = breaking();
    env.join(activities, orchestrations(), long_locks()).await;
    let is = |value: &str| Some(AttributeValue::String(value.to_owned()));
    allow.send_replace(Some(Err("broken".to_owned())));
    env.run("i", "Fail", "").await.expect_err("it is broken");
    allow.send_replace(None);
    let container = env.provider.container().clone();
    let tool = CosmosDBProvider::for_tools(container, &CosmosDBProviderConfig::default(), None);
    ok!(tool.expect("it opens").rewind("i", "ada"));
    assert_eq!(customer(&env).await, is("failure"));
    allow.send_replace(Some(Ok("done".to_owned())));
    assert_eq!(env.end_of("i").await.as_deref(), Ok("done"));
    assert_eq!(customer(&env).await, is("success"));
    env.stop().await;
}
