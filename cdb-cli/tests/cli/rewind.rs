//! `cdb instances rewind` and `fork`, and encoded payloads, with a duroxide runtime.

use cdb_model::Document as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cdb_cli::Exit;
use cdb_provider::documents::{Durable, Status};
use cdb_provider::payload::Encryption;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Client, OrchestrationContext, OrchestrationRegistry};

use crate::dashboard::server::change;
use crate::dashboard::serving::Serving;
use crate::fixture::instance;
use crate::harness::{Account, ends, long_locks};

/// A runtime with the orchestration `Order`, whose activity `Charge` fails until it is repaired.
async fn start(store: Arc<CosmosDBProvider>, repaired: Arc<AtomicBool>) -> Arc<Runtime> {
    let activities = ActivityRegistry::builder()
        .register(
            "Reserve",
            |_context, input: String| async move { Ok(input) },
        )
        .register("Charge", move |_context, input: String| {
            let repaired = repaired.load(Ordering::SeqCst);
            async move {
                if repaired {
                    return Ok(format!("charged {input}"));
                }
                Err("the bank is closed".to_owned())
            }
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder().register(
        "Order",
        async |context: OrchestrationContext, input: String| {
            let reserved = context.schedule_activity("Reserve", input).await?;
            context.schedule_activity("Charge", reserved).await
        },
    );
    Runtime::start_with_options(store, activities, orchestrations.build(), long_locks()).await
}

/// A container with three failed instances, its client, and the switch that repairs `Charge`.
pub(crate) async fn failed() -> (Account, Client, Arc<Runtime>, Arc<AtomicBool>) {
    let account = Account::start().await;
    let store = account.store(&CosmosDBProviderConfig::default()).await;
    let repaired = Arc::new(AtomicBool::new(false));
    let runtime = start(store.clone(), repaired.clone()).await;
    let client = Client::new(store);
    for id in ["a", "b", "c"] {
        ok!(client.start_orchestration(id, "Order", id));
        ended(&client, id).await;
    }
    (account, client, runtime, repaired)
}

async fn ended(client: &Client, id: &str) {
    let minutes = Duration::from_secs(300);
    ok!(client.wait_for_orchestration(id, minutes));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_instances_are_rewound() {
    let (account, client, runtime, repaired) = failed().await;
    let planned = ends(Exit::Usage, account.cdb("instances rewind a")).await;
    planned.prints("would rewind 1 instance\n");
    let course = "instance `a`, execution 2: keeps 4 events, runs Charge #4";
    planned.complains(course);

    repaired.store(true, Ordering::SeqCst);
    let one = "instances rewind a --by ada --yes";
    let rewound = ends(Exit::Ok, account.cdb(one)).await;
    assert_eq!(rewound.out, "rewound 1 instance\n");
    ended(&client, "a").await;
    let all = "instances rewind --status failed --yes";
    let rewound = account.cdb(all).await;
    rewound.prints("rewound 2 instances");
    for id in ["a", "b", "c"] {
        ended(&client, id).await;
        let shown = account.cdb(&["instances", "show", id]).await;
        shown.prints(&format!("charged {id}"));
        shown.prints(" RU, without the last commit");
    }
    let shown = account.cdb("instances show a").await;
    shown.prints("rewound to 4 events by ada at");
    let again = account.cdb(one).await;
    again.complains("`a` is Completed; only failed");
    runtime.shutdown(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_shows_the_instances_that_cannot_be_rewound() {
    let (account, _client, runtime, _repaired) = failed().await;
    runtime.shutdown(None).await;
    // It is the newest, and has no history.
    let pruned = instance("pruned", "Order", Status::Failed, 60 * 60 * 24 * 365 * 50);
    let container = account.container::<Durable>().await;
    container.run(pruned.create()).await.expect("it is stored");
    let plan = "instances rewind --status failed --dry-run";
    let planned = ends(Exit::Finding, account.cdb(plan)).await;
    planned.prints("would rewind 4 instances\n");
    planned.complains("cannot be rewound: ");
    for id in ["a", "b", "c"] {
        let course = format!("instance `{id}`, execution 2: keeps");
        planned.complains(&course);
    }
    let single = account.cdb("instances rewind pruned --dry-run").await;
    assert_ne!(single.exit, Exit::Ok, "{single:?}");
    assert!(single.out.is_empty(), "{single:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dashboard_rewinds_failed_instances() {
    let (account, client, runtime, repaired) = failed().await;
    repaired.store(true, Ordering::SeqCst);
    let serving = Serving::start(&account, &["--allow-actions"]);
    let rewind = async |id: &str| change(&serving, &format!("api/instances/{id}/rewind")).await;
    assert_eq!(rewind("missing").await, 404);
    assert_eq!(rewind("a").await, 200);
    ended(&client, "a").await;
    let shown = account.cdb("instances show a").await;
    shown.prints("charged a");
    let record = "rewound to 4 events by the dashboard at";
    shown.prints(record);
    assert_eq!(rewind("a").await, 400, "it is completed");
    runtime.shutdown(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_instance_records_the_operator() {
    let (account, client, runtime, repaired) = failed().await;
    repaired.store(true, Ordering::SeqCst);
    let restart = [
        "instances",
        "restart",
        "a",
        "--as",
        "d",
        "--by",
        "ada",
        "--yes",
    ];
    ends(Exit::Ok, account.cdb(&restart)).await;
    ended(&client, "d").await;
    let shown = account.cdb("instances show d").await;
    shown.prints("charged a");
    shown.prints("restarted from a by ada at");
    runtime.shutdown(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_is_forked_from_an_event() {
    let (account, client, runtime, repaired) = failed().await;
    repaired.store(true, Ordering::SeqCst);
    let fork = [
        "instances",
        "fork",
        "a",
        "--event",
        "4",
        "--as",
        "d",
        "--by",
        "ada",
    ];
    let forked = ends(Exit::Ok, account.cdb(&fork)).await;
    let course = "instance `d`, execution 1: keeps 2 events, runs Reserve #2";
    forked.prints(course);
    ended(&client, "d").await;
    let shown = account.cdb("instances show d").await;
    shown.prints("charged a");
    let record = "forked from execution 1 of a, event 4 by ada at";
    shown.prints(record);
    let again = account.cdb(&fork).await;
    again.complains("instance `d` exists");
    runtime.shutdown(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn encoded_payloads_are_shown_with_their_key_only() {
    let account = Account::start().await;
    let key = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    let codec = Encryption::new("k1", &[1; 32]).expect("a key");
    let config = CosmosDBProviderConfig {
        payload_codec: Some(Arc::new(codec)),
        ..CosmosDBProviderConfig::default()
    };
    let store = account.store(&config).await;
    let runtime = start(store.clone(), Arc::new(AtomicBool::new(true))).await;
    let client = Client::new(store);
    ok!(client.start_orchestration("a", "Order", "a secret"));
    ended(&client, "a").await;
    let keys = format!("--payload-keys=k1={key}");
    for command in [
        &["instances", "show", "a"][..],
        &["instances", "history", "a"],
    ] {
        let without = account.cdb(command).await;
        without.prints("cdb:payload:k1:");
        assert!(!without.out.contains("secret"), "{without:?}");
        let with = account.cdb(&[command, &[&*keys]].concat()).await;
        with.prints("charged a secret");
        assert!(!with.out.contains("cdb:payload"), "{with:?}");
    }
    let wrong = account
        .cdb(&["instances", "show", "a", "--payload-keys", key])
        .await;
    wrong.complains("key 1 is not `id=base64`");
    runtime.shutdown(None).await;
}
