//! Eleven incidents, each found and repaired through the tools alone. Where the remedy is outside of the
//! command, as more throughput, a tool names it and the test applies it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_emulator::{Effect, Fault};
use cdb_model::{Document as _, Patch, Query};
use cdb_provider::coordination::membership::{MemberDocument as _, MemberRecord, MembershipConfig};
use cdb_provider::documents::{
    Durable, FIRST_DUE, Instance, IntentItem, IntentQueue, Member, OrchestratorItem, OutboxIntent,
    Status, WorkerItem,
};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use cdb_work::Work;
use duroxide::providers::WorkItem;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{OrchestrationContext, OrchestrationRegistry};
use serde_json::json;
use tokio::sync::Semaphore;

use super::client::Client;
use crate::fixture::{dead_intent, instance, remove_status_index};
use crate::harness::{Account, long_locks};
use crate::retrying::{coordinator, fail};
use crate::work_items::{activity_named, activity_of, event_of};
use crate::{orchestration, rewind};

const MINUTE: Duration = Duration::from_secs(60);

/// An account and a client that may change something.
async fn operator() -> (Account, Client) {
    let account = Account::start().await;
    let client = Client::with_actions(&account).await;
    (account, client)
}

impl Client {
    /// Checks that the doctor has one finding, with these texts.
    async fn has_finding(&mut self, texts: &[&str]) {
        let found = self.findings().await;
        let is_it = |finding: &&String| texts.iter().all(|text| finding.contains(text));
        assert_eq!(
            found.iter().filter(is_it).count(),
            1,
            "{texts:?}: {found:#?}"
        );
    }

    /// Waits until the doctor has no finding of this check.
    async fn has_no_more(&mut self, check: &str) {
        while self
            .findings()
            .await
            .iter()
            .any(|finding| finding.starts_with(check))
        {
            tokio::task::yield_now().await;
        }
    }
}

async fn raised(container: &ContainerClient<Durable>, id: &str) {
    let raised = event_of(id, "Approved", "");
    let now = container.now();
    let message = OrchestratorItem::new(&raised, "raised".to_owned(), now, now);
    let message = message.expect("a message");
    container.run(message.create()).await.expect("it is stored");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_waits_for_an_event_that_nobody_raises() {
    let (account, mut client) = operator().await;
    let store = account.store(&CosmosDBProviderConfig::default()).await;
    let runtime = orchestration::start(store).await;
    let start = json!({ "instance": "family", "orchestration": "Family", "input": "ada" });
    client.change("instances_start", start).await;
    let shown = json!({ "instance": "family" });
    client
        .until("instances_show", shown.clone(), "Approved")
        .await;
    let listed = client
        .read("instances_list", json!({ "status": ["running"] }))
        .await;
    assert_eq!(listed.answer["instances"][0]["id"], "family");
    let detail = client.read("instances_show", shown.clone()).await;
    assert_eq!(detail.answer["waits"][0]["kind"], "event", "{detail:?}");
    let event = detail.answer["waits"][0]["name"].clone();
    let raise = json!({ "instance": "family", "event": event, "data": "yes" });
    client.change("instances_raise", raise).await;
    let ended = client.read("instances_wait", shown).await;
    assert_eq!(ended.answer["output"], "hello ada yes");
    runtime.shutdown(None).await;
}

#[tokio::test]
async fn an_instance_is_poisoned_by_a_message() {
    let (account, mut client) = operator().await;
    let container = account.container::<Durable>().await;
    let poisoned = Instance {
        attempts: BTreeMap::from([("poisoned:orch:raised".to_owned(), 8)]),
        ..instance("poisoned", "Order", Status::Running, 0)
    };
    container.run(poisoned.create()).await.expect("an instance");
    raised(&container, "poisoned").await;
    client
        .has_finding(&["stuck", "`poisoned`", "fetched 8 times", "delete --force"])
        .await;
    let shown = client
        .read("instances_show", json!({ "instance": "poisoned" }))
        .await;
    assert_eq!(shown.answer["messages"][0]["attempts"], 8, "{shown:?}");
    let delete = json!({ "instances": ["poisoned"], "force": true });
    client.change("instances_delete", delete).await;
    assert_eq!(client.findings().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_message_is_dead() {
    let (account, mut client) = operator().await;
    dead_intent(&account.container::<Durable>().await).await;
    client
        .has_finding(&["messages", "messages list", "messages redrive"])
        .await;
    let listed = client.read("messages_list", json!({})).await;
    let letter = &listed.answer["messages"][0];
    assert!(
        letter["reason"]
            .as_str()
            .is_some_and(|text| text.contains("403")),
        "{listed:?}"
    );
    client
        .change("messages_redrive", json!({ "names": [letter["name"]] }))
        .await;
    client.has_no_more("messages").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_ordered_work_is_dead() {
    let account = Account::empty().await;
    let work = coordinator(account.container::<Work>().await, 1).await;
    let mut client = Client::with_actions(&account).await;
    fail(&work, "order-7", "no such order").await;
    client
        .has_finding(&["messages", "no such order", "messages redrive"])
        .await;
    let listed = client
        .read("messages_list", json!({ "source": "work" }))
        .await;
    let name = &listed.answer["messages"][0]["name"];
    client
        .change("messages_redrive", json!({ "names": [name] }))
        .await;
    client.has_no_more("messages").await;
    work.shutdown().await.expect("it stops");
}

#[tokio::test]
async fn the_policy_lacks_an_index() {
    let (account, mut client) = operator().await;
    remove_status_index(&account).await;
    client
        .has_finding(&["policy", "`/status/?` is not indexed", "policy apply"])
        .await;
    let difference = client.read("policy_diff", json!({})).await;
    assert_eq!(difference.answer["differences"][0]["breaking"], true);
    client.change("policy_apply", json!({})).await;
    assert_eq!(client.findings().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_runtime_has_the_orchestration_registered() {
    let (account, mut client) = operator().await;
    let store = account.store(&CosmosDBProviderConfig::default()).await;
    let old = orchestration::start(store.clone()).await;
    let start = json!({ "instance": "a", "orchestration": "Refund" });
    client.change("instances_start", start).await;
    let says = "no runtime knows Refund, which starts `a`";
    client.until("doctor", json!({}), says).await;
    client
        .has_finding(&[says, "start a runtime that has Refund registered"])
        .await;
    old.shutdown(None).await;
    let refund = |_: OrchestrationContext, _: String| async move { Ok("refunded".to_owned()) };
    let known = OrchestrationRegistry::builder().register("Refund", refund);
    let activities = ActivityRegistry::builder().build();
    let new = Runtime::start_with_options(store, activities, known.build(), long_locks()).await;
    let ended = client
        .read("instances_wait", json!({ "instance": "a" }))
        .await;
    assert_eq!(ended.answer["output"], "refunded");
    client.has_no_more("runtimes").await;
    new.shutdown(None).await;
}

#[tokio::test]
async fn the_container_is_throttled() {
    let (account, mut client) = operator().await;
    let throttled = Effect::throttled(Duration::from_millis(1));
    account.emulator.inject(Fault::script(vec![throttled; 3]));
    client
        .has_finding(&["throttling", "3 of ", "raise the container's request units"])
        .await;
    assert_eq!(client.findings().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_have_failed_because_an_activity_failed() {
    let (account, _, runtime, repaired) = rewind::failed().await;
    let mut client = Client::with_actions(&account).await;
    let listed = client
        .read("instances_list", json!({ "status": ["failed"] }))
        .await;
    let found = listed.answer["instances"].as_array().expect("a list");
    assert_eq!(found.len(), 3, "{listed:?}");
    let shown = client
        .read("instances_show", json!({ "instance": found[0]["id"] }))
        .await;
    assert!(
        shown.answer["output"]
            .as_str()
            .is_some_and(|text| text.contains("the bank is closed"))
    );
    repaired.store(true, Ordering::SeqCst);
    let rewound = client
        .change("instances_rewind", json!({ "status": ["failed"] }))
        .await;
    assert_eq!(rewound.answer["instances"], 3);
    for id in ["a", "b", "c"] {
        let ended = client
            .read("instances_wait", json!({ "instance": id }))
            .await;
        assert_eq!(ended.answer["status"], "Completed", "{ended:?}");
    }
    runtime.shutdown(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_is_gone_and_has_left_a_lock() {
    let (account, mut client) = operator().await;
    let container = account.container::<Durable>().await;
    let heartbeat = MemberRecord::Heartbeat {
        incarnation: "7".to_owned(),
        period_ms: 100,
        at: container.now() - MINUTE,
    };
    for (name, record) in [
        ("roster", MemberRecord::roster(vec!["west".to_owned()])),
        ("member.west", heartbeat),
    ] {
        let member = Member::new("cdb:members", name, record);
        container.run(member.create()).await.expect("it is stored");
    }
    let running = instance("order-1", "Order", Status::Running, 0);
    container.run(running.create()).await.expect("an instance");
    let (item, until) = (notify("order-1"), container.now() + 60 * MINUTE);
    let locked = WorkerItem {
        lock_token: Some("7/token".to_owned()),
        locked_until: Some(until),
        visible_at: until,
        ..WorkerItem::new(&item, container.now())
            .expect("JSON")
            .expect("an activity")
    };
    container.run(locked.create()).await.expect("it is stored");
    client
        .has_finding(&["members", "no heartbeat from west", "start a runtime"])
        .await;
    client
        .has_finding(&["stuck", "activity #2 of `order-1` is locked"])
        .await;
    let membership = MembershipConfig {
        heartbeat: Duration::from_millis(100),
        ..MembershipConfig::named("east")
    };
    let config = CosmosDBProviderConfig {
        membership: Some(membership),
        ..CosmosDBProviderConfig::default()
    };
    let _east = account.store(&config).await;
    client.has_no_more("members: no heartbeat").await;
    client.has_no_more("stuck").await;
}

fn notify(instance: &str) -> WorkItem {
    activity_named("Notify", activity_of(instance, 2, None))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_to_other_instances_are_not_delivered() {
    let (account, mut client) = operator().await;
    let container = account.container::<Durable>().await;
    let raised = event_of("stock", "Released", "");
    let at = container.now() - 5 * MINUTE;
    let intent = OutboxIntent {
        items: vec![IntentItem {
            queue: IntentQueue::Orchestrator,
            work_item: serde_json::to_string(&raised).expect("JSON").into(),
            visible_at: container.now(),
        }],
        ..OutboxIntent::new("order-1", "turn-1".to_owned(), "stock", at)
    };
    container.run(intent.create()).await.expect("it is stored");
    client
        .has_finding(&["outbox", "undelivered intents: 1", "start a runtime"])
        .await;
    let listed = client
        .read("messages_list", json!({ "state": "retrying" }))
        .await;
    assert_eq!(listed.answer["messages"][0]["to"], "stock", "{listed:?}");
    let _runtime = account.store(&CosmosDBProviderConfig::default()).await;
    client.has_no_more("outbox").await;
}

/// A runtime with the activity `Sleep`, which waits for a permit.
async fn sleeper(store: Arc<CosmosDBProvider>, permits: Arc<Semaphore>) -> Arc<Runtime> {
    let activities = ActivityRegistry::builder().register("Sleep", move |_, _: String| {
        let permits = permits.clone();
        async move {
            permits.acquire().await.expect("it is open").forget();
            Ok("rested".to_owned())
        }
    });
    let nap = |context: OrchestrationContext, input: String| async move {
        context.schedule_activity("Sleep", input).await
    };
    let orchestrations = OrchestrationRegistry::builder().register("Nap", nap);
    let options = RuntimeOptions {
        worker_concurrency: 1,
        ..long_locks()
    };
    Runtime::start_with_options(store, activities.build(), orchestrations.build(), options).await
}

/// Lets the activity that waits for a worker be due since some minutes.
async fn age_due_activity(container: &ContainerClient<Durable>) {
    loop {
        let query =
            Query::<WorkerItem>::across_partitions().filter(WorkerItem::VISIBLE_AT.ge(FIRST_DUE));
        let items = container.query(query).all().await.expect("it can be read");
        let due = items.iter().find(|item| item.document.lock_token.is_none());
        if items.len() == 2
            && let Some(due) = due
        {
            let earlier = container.now() - 5 * MINUTE;
            let patch = Patch::<WorkerItem>::new().set(WorkerItem::VISIBLE_AT, earlier);
            container.run(patch.at(due)).await.expect("it is changed");
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_workers_are_busy() {
    let (account, mut client) = operator().await;
    let store = account.store(&CosmosDBProviderConfig::default()).await;
    let permits = Arc::new(Semaphore::new(0));
    let first = sleeper(store, permits.clone()).await;
    for id in ["a", "b"] {
        let start = json!({ "instance": id, "orchestration": "Nap" });
        client.change("instances_start", start).await;
    }
    age_due_activity(&account.container::<Durable>().await).await;
    let says = [
        "due activities: 1",
        "activities running: 1, the oldest Sleep #2 of `",
        "worker_concurrency",
    ];
    client.has_finding(&says).await;
    let queues = client.read("queues", json!({})).await;
    assert_eq!(
        queues.answer["busy"][0]["longest"]["activity"], "Sleep #2",
        "{queues:?}"
    );
    let store = account.store(&CosmosDBProviderConfig::default()).await;
    let second = sleeper(store, permits.clone()).await;
    client.has_no_more("activities").await;
    permits.add_permits(2);
    for id in ["a", "b"] {
        let ended = client
            .read("instances_wait", json!({ "instance": id }))
            .await;
        assert_eq!(ended.answer["output"], "rested");
    }
    first.shutdown(None).await;
    second.shutdown(None).await;
}
