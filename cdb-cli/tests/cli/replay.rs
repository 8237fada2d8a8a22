//! `cdb instances replay --file`: an export is replayed without a connection.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cdb_cli::{Cli, Exit};
use cdb_provider::CosmosDBProviderConfig;
use cdb_provider::documents::Durable;
use cdb_provider::payload::{Encryption, PayloadCodec};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Client, OrchestrationContext, OrchestrationRegistry};

use crate::harness::{Account, Run, ends, long_locks, run};
use crate::orchestration::{orchestrations, start};

/// The key of the payloads.
const KEY: &str = "k1=AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

/// Two instances that wait for an event, one of them with this input, and an ended one.
async fn waiting(input: &str, payload_codec: Option<Arc<dyn PayloadCodec>>) -> Account {
    let account = Account::start().await;
    let config = CosmosDBProviderConfig {
        payload_codec,
        ..CosmosDBProviderConfig::default()
    };
    let store = account.store(&config).await;
    let runtime = start(store.clone()).await;
    let client = Client::new(store);
    for (id, name, input) in [
        ("small", "Family", "ada"),
        ("other", "Family", input),
        ("ended", "Child", ""),
    ] {
        ok!(client.start_orchestration(id, name, input));
    }
    for (id, waits) in [
        ("small", "waits for: event Approved"),
        ("other", "waits for: event Approved"),
        ("ended", "Completed"),
    ] {
        while !account
            .cdb(&["instances", "show", id])
            .await
            .out
            .contains(waits)
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    runtime.shutdown(None).await;
    account
}

/// Replays a file, without a connection.
async fn replay(orchestrations: OrchestrationRegistry, file: &Path, more: &[&str]) -> Run {
    let file = file.to_str().expect("UTF-8");
    let cli = Cli::<Durable>::new("duroxide").orchestrations(orchestrations);
    let arguments = [&["instances", "replay", "--file", file], more].concat();
    run(&cli, &arguments, &[]).await
}

fn changed() -> OrchestrationRegistry {
    let welcome = |context: OrchestrationContext, name: String| async move {
        context.schedule_activity("Welcome", name).await
    };
    OrchestrationRegistry::builder()
        .register("Family", welcome)
        .build()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_is_replayed_without_a_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("production.jsonl");
    // Too large for a document, so the history is in chunks.
    let account = waiting(&"x".repeat(1_500_000), None).await;
    let path = file.to_str().expect("UTF-8");
    ends(Exit::Ok, account.cdb(&["export", "--out", path])).await;
    let text = std::fs::read_to_string(&file).expect("an export");
    assert!(text.contains(r#""type":"chunk""#));

    let same = ends(Exit::Ok, replay(orchestrations(), &file, &[])).await;
    let text = "replayed 2 instances; the code makes the recorded decisions";
    same.prints(text);

    let different = ends(Exit::Finding, replay(changed(), &file, &[])).await;
    for text in [
        "replayed 2 instances; 2 differ",
        "small, execution 1, event 2: recorded is activity `Greet` with input `ada`, the code decides activity `Welcome`",
    ] {
        assert!(different.out.contains(text), "{text}: {different:?}");
    }
    let one = replay(changed(), &file, &["--match", "small"]).await;
    one.prints("replayed 1 instance; 1 differs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn encoded_payloads_are_replayed_with_their_key_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("production.jsonl");
    let codec = Encryption::parse(KEY).expect("a key");
    let account = waiting("bob", Some(Arc::new(codec))).await;
    let path = file.to_str().expect("UTF-8");
    account.cdb(&["export", "--out", path]).await;
    let cli = Cli::<Durable>::new("duroxide").orchestrations(orchestrations());
    let container = account.run(&cli, "instances replay").await;
    let export = replay(orchestrations(), &file, &[]).await;
    for refused in [container, export] {
        assert_eq!(refused.exit, Exit::Service, "{refused:?}");
        for text in ["is encoded with key `k1`", "set COSMOS_PAYLOAD_KEYS"] {
            assert!(refused.err.contains(text), "{text}: {refused:?}");
        }
    }
    let keys = format!("--payload-keys={KEY}");
    ends(Exit::Ok, replay(orchestrations(), &file, &[&keys])).await;
    let different = replay(changed(), &file, &[&keys]).await;
    different.prints("with input `ada`");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_instance_is_named_with_the_step_that_differs() {
    let account = waiting("bob", None).await;
    let store = account.store(&CosmosDBProviderConfig::default()).await;
    let activities = ActivityRegistry::builder().build();
    let options = long_locks();
    let runtime = Runtime::start_with_options(store.clone(), activities, changed(), options).await;
    let client = Client::new(store);
    ok!(client.raise_event("small", "Approved", "yes"));
    let held = loop {
        let shown = account.cdb(&["instances", "show", "small"]).await;
        if shown.out.contains("held:") {
            break shown;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    held.prints("nondeterminism at event 2");
    assert!(!held.out.contains("this build"), "{held:?}");
    for (code, text) in [
        (
            changed(),
            "this build differs at event 2: recorded is activity `Greet` with input `ada`, the code decides activity `Welcome`",
        ),
        (orchestrations(), "this build makes the recorded decisions"),
    ] {
        let cli = Cli::<Durable>::new("duroxide").orchestrations(code);
        let shown = account.run(&cli, "instances show small").await;
        shown.prints(text);
    }
    let listed = account.cdb("instances list --held").await;
    assert!(
        listed.out.contains("small") && !listed.out.contains("other"),
        "{listed:?}"
    );
    assert_state(&account, "Held").await;
    let paused = account.cdb("instances pause small --by ada --yes").await;
    paused.prints("paused 1 instance");
    assert_state(&account, "Paused, held").await;
    let resumed = account.cdb("instances resume small --yes").await;
    resumed.prints("resumed 1 instance");
    let doctor = account.cdb("doctor").await;
    doctor.prints("PROBLEM  held");
    doctor.prints("instance `small` of `Family` 1.0.0 is held");
    let rewound = account.cdb("instances rewind small --yes").await;
    assert!(rewound.err.contains("is held; it continues"), "{rewound:?}");
    runtime.shutdown(None).await;
}

/// Checks that each command names the state of the instance `small` so.
async fn assert_state(account: &Account, state: &str) {
    for (command, text) in [
        (
            "instances show small",
            format!("status:        {state}, execution 1\n"),
        ),
        ("instances tree small", format!("small Family {state}\n")),
        ("instances list --match small", format!("  {state}  ")),
        ("instances cancel small --dry-run", format!("\n{state}  ")),
        (
            "instances raise small Approved --dry-run",
            format!("\n{state}  "),
        ),
    ] {
        account.cdb(command).await.prints(&text);
        let json = account.cdb(&*format!("{command} --json")).await;
        json.prints(&format!("\"state\": \"{state}\""));
    }
}

#[tokio::test]
async fn an_unusable_export_is_named_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("lines");
    let missing = replay(orchestrations(), &file, &[]).await;
    for (lines, text) in [
        ("", "holds no instances; write it with `cdb export`"),
        ("{\"id\":\"1\"}\n", "holds no instances"),
        (
            "{\"id\":\"1\"}\n\n{\"id\":",
            "line 3 is not a document of an export",
        ),
    ] {
        std::fs::write(&file, lines).expect("a file");
        let refused = ends(Exit::Usage, replay(orchestrations(), &file, &[])).await;
        assert!(refused.err.contains(text), "{text}: {refused:?}");
    }
    assert_eq!(missing.exit, Exit::Usage, "{missing:?}");
    missing.complains("cannot read ");
}

#[tokio::test]
async fn an_instance_whose_history_is_not_whole_is_a_finding() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("lines");
    let instance = r#"{"type":"instance","id":"a:instance","instanceId":"a","orchestrationName":"Family","status":"Running","currentExecutionId":1,"historyDocuments":2,"createdAt":0,"updatedAt":0}"#;
    std::fs::write(&file, instance).expect("a file");
    let found = ends(Exit::Finding, replay(orchestrations(), &file, &[])).await;
    let text = "the export holds 0 of the 2 history documents";
    found.prints(text);
}
