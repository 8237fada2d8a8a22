//! The command together with a duroxide runtime.

use std::sync::Arc;
use std::time::Duration;

use cdb_cli::{Cli, Exit};
use cdb_provider::documents::Durable;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Client, OrchestrationContext, OrchestrationRegistry};

use crate::harness::{Account, ends, long_locks};

async fn family(context: OrchestrationContext, name: String) -> Result<String, String> {
    let greeting = context.schedule_activity("Greet", name).await?;
    let child = context
        .schedule_sub_orchestration("Child", greeting)
        .await?;
    let approved = context.schedule_wait("Approved").await;
    Ok(format!("{child} {approved}"))
}

pub(crate) fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Family", family)
        .register(
            "Child",
            |_context: OrchestrationContext, input: String| async move { Ok(input) },
        )
        .build()
}

pub(crate) async fn start(store: Arc<CosmosDBProvider>) -> Arc<Runtime> {
    let activities = ActivityRegistry::builder()
        .register("Greet", |_context, name: String| async move {
            Ok(format!("hello {name}"))
        })
        .build();
    Runtime::start_with_options(store, activities, orchestrations(), long_locks()).await
}

/// Starts a runtime and its client on the account.
async fn start_on(account: &Account) -> (Arc<Runtime>, Client) {
    let store = account.store(&CosmosDBProviderConfig::default()).await;
    (start(store.clone()).await, Client::new(store))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_instances_are_replayed_through_the_code_of_the_program() {
    let account = Account::start().await;
    let (runtime, client) = start_on(&account).await;
    for id in ["a", "b"] {
        ok!(client.start_orchestration(id, "Family", "ada"));
        while !account
            .cdb(&["instances", "show", id])
            .await
            .out
            .contains("waits for: event Approved")
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let listed = account.cdb("instances list --status running").await;
    assert_eq!(
        listed.out.matches("event Approved").count(),
        2,
        "{listed:?}"
    );
    let same = Cli::<Durable>::new("duroxide").orchestrations(orchestrations());
    let replayed = ends(Exit::Ok, account.run(&same, "instances replay")).await;
    let text = "replayed 2 instances; the code makes the recorded decisions";
    replayed.prints(text);

    let changed = OrchestrationRegistry::builder().register(
        "Family",
        async |context: OrchestrationContext, name: String| {
            context.schedule_activity("Welcome", name).await
        },
    );
    let changed = Cli::<Durable>::new("duroxide").orchestrations(changed.build());
    let limited = "instances replay --limit 1";
    let replayed = ends(Exit::Finding, account.run(&changed, limited)).await;
    for text in [
        "replayed 2 instances; 2 differ",
        "execution 1, event 2: recorded is activity `Greet` with input `ada`, the code decides activity `Welcome`",
        "and 1 more; --limit shows more of them",
    ] {
        assert!(replayed.out.contains(text), "{text}: {replayed:?}");
    }
    let without_code = ends(Exit::Usage, account.cdb("instances replay")).await;
    without_code.complains("orchestrations(registry)");
    runtime.shutdown(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_of_a_running_orchestration_is_shown_and_it_receives_an_event() {
    let account = Account::start().await;
    let (runtime, client) = start_on(&account).await;
    ok!(client.start_orchestration("family", "Family", "ada"));
    let mut history = account.cdb("instances history family").await;
    for _ in 0..10_000 {
        if history.out.contains("ExternalSubscribed Approved") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        history = account.cdb("instances history family").await;
    }
    for event in [
        "OrchestrationStarted Family",
        "ActivityScheduled Greet",
        "ActivityCompleted of #2",
        "result: hello ada",
    ] {
        assert!(
            history.out.contains(event),
            "{event} is missing: {history:?}"
        );
    }
    let tree = account.cdb("instances tree family").await;
    tree.prints("family Family Running\n└─ ");
    tree.prints(" Child Completed\n");
    account.cdb("instances raise family Approved yes").await;
    let ended = client
        .wait_for_orchestration("family", Duration::from_secs(1800))
        .await;
    assert!(ended.is_ok(), "{ended:?}");
    let shown = account.cdb("instances show family").await;
    shown.prints("status:        Completed");
    shown.prints("output:        hello ada yes");
    runtime.shutdown(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orchestration_is_started_watched_and_awaited() {
    let account = Account::start().await;
    let (runtime, _) = start_on(&account).await;
    ends(Exit::Ok, account.cdb("instances start family Family ada")).await;
    let again = account.cdb("instances start family Family ada").await;
    assert_eq!(again.exit, Exit::Usage, "{again:?}");
    ends(Exit::Finding, account.cdb("instances wait family --for 1s")).await;
    let mut shown = account.cdb("instances show family").await;
    while !shown.out.contains("waits for: event Approved, since ") {
        tokio::time::sleep(Duration::from_millis(50)).await;
        shown = account.cdb("instances show family").await;
    }
    shown.prints("input:         ada\n");
    let other = account.cdb("instances raise family Refused").await;
    other.complains("does not wait for an event `Refused` now; it waits for Approved");
    let raised = account.cdb("instances raise family Approved yes").await;
    assert_eq!(raised.err, "", "{raised:?}");
    let watched = ends(Exit::Ok, account.cdb("instances watch family")).await;
    let lines: Vec<&str> = watched.out.lines().collect();
    assert!(
        lines[0].contains("OrchestrationStarted Family"),
        "{watched:?}"
    );
    watched.prints("OrchestrationCompleted");
    let json = account.cdb("instances watch family --json").await;
    assert_eq!(json.out.lines().count(), lines.len(), "{json:?}");
    let ended = ends(Exit::Ok, account.cdb("instances wait family")).await;
    ended.prints("output:        hello ada yes");
    assert!(!ended.out.contains("waits for"), "{ended:?}");
    ends(Exit::Finding, account.cdb("instances wait missing")).await;
    runtime.shutdown(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orchestration_that_no_runtime_knows_is_named() {
    let account = Account::start().await;
    let (runtime, client) = start_on(&account).await;
    for id in ["a", "b"] {
        let started = client
            .start_orchestration_versioned(id, "Refund", "2.0.0", "")
            .await;
        started.expect("it starts");
    }
    let waits = "waiting for a runtime that knows Refund 2.0.0: `a` and 1 more";
    let mut listed = account.cdb("instances list").await;
    while !listed.out.contains(waits) {
        tokio::time::sleep(Duration::from_millis(50)).await;
        listed = account.cdb("instances list").await;
    }
    let json = account.cdb("instances list --json").await;
    let json: serde_json::Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(json["unstarted"][0]["orchestration"], "Refund", "{json}");
    let doctor = account.cdb("doctor").await;
    let found = "no runtime knows Refund 2.0.0, which starts `a` and 1 more";
    doctor.prints(found);
    let shown = account.cdb("instances show a").await;
    let waits = "it waits for a runtime that knows Refund 2.0.0";
    shown.complains(waits);
    runtime.shutdown(None).await;
}
