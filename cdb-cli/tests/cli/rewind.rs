//! `cdb instances rewind` and `fork`, with a duroxide runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cdb_cli::Exit;
use cdb_provider::documents::Durable;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Client, OrchestrationContext, OrchestrationRegistry};

use crate::harness::Account;

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
                match repaired {
                    true => Ok(format!("charged {input}")),
                    false => Err("the bank is closed".to_owned()),
                }
            }
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder().register(
        "Order",
        |context: OrchestrationContext, input: String| async move {
            let reserved = context.schedule_activity("Reserve", input).await?;
            context.schedule_activity("Charge", reserved).await
        },
    );
    Runtime::start_with_store(store, activities, orchestrations.build()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_instances_are_rewound_and_forked() {
    let account = Account::start().await;
    let config = CosmosDBProviderConfig::default();
    let store = CosmosDBProvider::on(account.container::<Durable>().await, &config).await;
    let store = Arc::new(store.expect("the container opens"));
    let repaired = Arc::new(AtomicBool::new(false));
    let runtime = start(store.clone(), repaired.clone()).await;
    let client = Client::new(store);
    let minutes = Duration::from_secs(300);
    for id in ["a", "b", "c"] {
        let started = client.start_orchestration(id, "Order", id).await;
        started.expect("it starts");
        client
            .wait_for_orchestration(id, minutes)
            .await
            .expect("it ends");
    }
    let planned = account.cdb(&["instances", "rewind", "a"]).await;
    assert_eq!(planned.exit, Exit::Usage, "{planned:?}");
    assert!(
        planned.out.contains("would rewind 1 instance\n"),
        "{planned:?}"
    );
    let course = "instance `a`, execution 2: keeps 4 events, runs Charge #4";
    assert!(planned.err.contains(course), "{planned:?}");

    repaired.store(true, Ordering::SeqCst);
    let one = ["instances", "rewind", "a", "--by", "ada", "--yes"];
    let rewound = account.cdb(&one).await;
    assert_eq!(rewound.exit, Exit::Ok, "{rewound:?}");
    assert_eq!(rewound.out, "rewound 1 instance\n");
    let all = ["instances", "rewind", "--status", "failed", "--yes"];
    let rewound = account.cdb(&all).await;
    assert!(rewound.out.contains("rewound 2 instances"), "{rewound:?}");
    for id in ["a", "b", "c"] {
        client
            .wait_for_orchestration(id, minutes)
            .await
            .expect("it ends");
        let shown = account.cdb(&["instances", "show", id]).await;
        assert!(shown.out.contains(&format!("charged {id}")), "{shown:?}");
    }
    let shown = account.cdb(&["instances", "show", "a"]).await;
    let record = "rewound to 4 events by ada";
    assert!(shown.out.contains(record), "{shown:?}");
    let again = account.cdb(&one).await;
    assert!(
        again.err.contains("`a` is Completed; only failed"),
        "{again:?}"
    );

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
    let forked = account.cdb(&fork).await;
    assert_eq!(forked.exit, Exit::Ok, "{forked:?}");
    assert!(
        forked
            .out
            .contains("instance `d`, execution 1: keeps 2 events, runs Reserve #2"),
        "{forked:?}"
    );
    client
        .wait_for_orchestration("d", minutes)
        .await
        .expect("it ends");
    let shown = account.cdb(&["instances", "show", "d"]).await;
    let record = "forked from execution 2 of a, event 4 by ada";
    assert!(shown.out.contains(record), "{shown:?}");
    let again = account.cdb(&fork).await;
    assert!(again.err.contains("instance `d` exists"), "{again:?}");
    runtime.shutdown(None).await;
}
