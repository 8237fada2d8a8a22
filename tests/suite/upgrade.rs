//! Containers of other versions and programs: opened, finished, or refused if their schema version is newer.

#[path = "../upgrade/raw_container.rs"]
mod raw_container;
#[path = "../upgrade/workload.rs"]
#[expect(
    dead_code,
    reason = "another program leaves the work that is finished here"
)]
mod workload;

use std::sync::Arc;

use cdb_emulator::{Emulator, OperationKind};
use cdb_provider::client::{Bootstrap, CosmosClient, MasterKey};
use cdb_provider::documents::{NEVER, Rule, SCHEMA_PARTITION, SCHEMA_VERSION, Schema, SchemaKey};
use cdb_provider::model::container::{ContainerDefinition, DefaultTtl};
use cdb_provider::model::document::DecodeError;
use cdb_provider::model::shape::DocumentShape;
use cdb_provider::model::{Container, Document as _};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig, SearchAttributes};
use duroxide::providers::{Provider, ProviderAdmin, TagFilter};
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{Client, EventKind, OrchestrationStatus};
use raw_container::{CONTAINER, DATABASE, RawContainer};
use serde_json::Value;
use workload::{CANCELLED, ENDINGS, EVENTS, Ending, HOSTILE, KEPT, REASON};

use crate::harness::{end_of, eventually, long_locks};

/// Containers with unfinished work; tests/upgrade/README.md has the commands that write them.
const FILES: [&str; 2] = [
    include_str!("../upgrade/duroxide-cdb-0.1.10.jsonl"),
    include_str!("../upgrade/cdb-provider-before-schema.jsonl"),
];
/// Written by `duroxide-cdb` 0.1.10.
const OLD_PROVIDER: usize = 0;
/// Written by our own version before containers had a schema version.
const BEFORE_SCHEMA: usize = 1;

/// A container whose first line in the file is its definition, without document types.
#[derive(Debug)]
enum Written<const FILE: usize> {}

untyped!(<const FILE: usize> Written<FILE>, "Written", {
    let definition = FILES[FILE].lines().next().expect("a first line");
    serde_json::from_str(definition).expect("a definition")
});

/// An emulator with the container of a file, as if it had been written two minutes ago.
async fn loaded<const FILE: usize>() -> Emulator {
    let file = FILES[FILE];
    let emulator = raw_container::emulator().start().await;
    let emulator = emulator.expect("the emulator starts");
    let client = CosmosClient::builder(emulator.endpoint())
        .credential(MasterKey::new(emulator.key()).expect("a key"))
        .build()
        .expect("a client");
    let database = client.database(DATABASE);
    let made = database.bootstrap::<Written<FILE>>(CONTAINER, Bootstrap::CreateIfMissing);
    made.await.expect("it is created");
    let left: u64 = file
        .lines()
        .skip(1)
        .map(|line| times_of(&parse(line)))
        .max()
        .expect("a document");
    let shift = i128::from(client.now().as_millis()) - i128::from(left) - 120_000;
    let container = RawContainer::of(&emulator);
    for line in file.lines().skip(1) {
        container
            .create(&shifted(parse(line), shift).to_string())
            .await;
    }
    emulator
}

fn parse(line: &str) -> Value {
    serde_json::from_str(line).expect("JSON")
}

/// Returns the time of a document's last write, if the document has one.
fn times_of(document: &Value) -> u64 {
    let times = ["createdAt", "updatedAt", "enqueuedAt"].map(|name| document[name].as_u64());
    times.into_iter().flatten().max().unwrap_or_default()
}

/// Moves the times of a document, so that due times and locks do not depend on when the test runs.
fn shifted(mut document: Value, by: i128) -> Value {
    const TIMES: [&str; 7] = [
        "createdAt",
        "updatedAt",
        "enqueuedAt",
        "visibleAt",
        "lockedUntil",
        "lastActivity",
        "lastUpdatedAtMs",
    ];
    for name in TIMES {
        let time = document[name].as_u64();
        if let Some(time) = time.filter(|time| *time < NEVER.as_millis()) {
            let later = i128::from(time) + by;
            document[name] = u64::try_from(later).expect("a time").into();
        }
    }
    if let Some(items) = document.get_mut("items").and_then(Value::as_array_mut) {
        for item in items {
            *item = shifted(item.take(), by);
        }
    }
    // An intent carries the whole document that it will become.
    if let Some(payload) = document["payload"].as_str().map(parse) {
        document["payload"] = shifted(payload, by).to_string().into();
    }
    document
}

async fn open(emulator: &Emulator) -> CosmosDBProvider {
    try_open(emulator).await.expect("the container opens")
}

/// Finishes all work and checks the result of each instance.
async fn finish(provider: &CosmosDBProvider) {
    let store = Arc::new(provider.clone());
    let client = Client::new(store.clone());
    let options = RuntimeOptions {
        worker_tag_filter: TagFilter::Any,
        ..long_locks()
    };
    let (activities, orchestrations) = (workload::activities(false), workload::orchestrations());
    let runtime = Runtime::start_with_options(store, activities, orchestrations, options).await;
    for (instance, answer) in EVENTS {
        // An event that arrives before the instance waits for it is dropped.
        eventually(async || {
            let history =
                client.read_execution_history(instance, execution(provider, instance).await);
            let history = history.await.unwrap_or_default();
            history
                .iter()
                .any(|event| matches!(event.kind, EventKind::ExternalSubscribed { .. }))
        })
        .await;
        ok!(client.raise_event(*instance, "answer", *answer));
    }
    for instance in CANCELLED {
        ok!(client.cancel_instance(*instance, REASON));
    }
    for (instance, expected) in ENDINGS {
        match (end_of(&client, instance).await, expected) {
            (OrchestrationStatus::Completed { output, .. }, Ending::Returns(expected)) => {
                assert_eq!(&output, expected, "{instance}");
            }
            (OrchestrationStatus::Failed { details, .. }, Ending::Fails(expected)) => {
                let message = details.display_message();
                assert!(message.contains(expected), "{instance}: {message}");
            }
            (other, expected) => panic!("{instance} is {other:?}, not {expected:?}"),
        }
    }
    runtime.shutdown(None).await;
}

async fn execution(provider: &CosmosDBProvider, instance: &str) -> u64 {
    provider
        .latest_execution_id(instance)
        .await
        .unwrap_or_default()
}

/// Returns the remaining messages, activities and intents.
async fn undelivered(emulator: &Emulator) -> Vec<String> {
    let dump = RawContainer::of(emulator).dump().await;
    dump.lines()
        .skip(1)
        .filter(|line| {
            let document = parse(line);
            let queued = matches!(
                document["type"].as_str(),
                Some("orch_queue" | "worker_queue" | "outbox_intent")
            );
            // The trace of a consumed message is empty.
            queued && document["workItem"] != "" && document["instanceId"] != SCHEMA_PARTITION
        })
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn unfinished_work_of_the_old_provider_is_completed() {
    let emulator = loaded::<OLD_PROVIDER>().await;
    let provider = open(&emulator).await;
    assert_eq!(provider.list_instances().await.expect("a list").len(), 22);
    finish(&provider).await;
    let left = undelivered(&emulator).await;
    // The timer that fires in a hundred years stays until its instance is deleted.
    assert!(
        left.iter().all(|line| line.contains("TimerFired")),
        "{left:#?}"
    );
}

#[tokio::test]
async fn unfinished_work_of_a_former_version_is_completed() {
    let emulator = loaded::<BEFORE_SCHEMA>().await;
    let provider = open(&emulator).await;
    finish(&provider).await;
    let left = undelivered(&emulator).await;
    assert!(
        left.iter().all(|line| line.contains("TimerFired")),
        "{left:#?}"
    );
}

#[derive(SearchAttributes)]
struct Search {
    customer: String,
}

#[tokio::test]
async fn a_container_without_the_index_of_search_attributes_is_searched_and_gets_it_when_opened() {
    let emulator = loaded::<BEFORE_SCHEMA>().await;
    let unchanged = CosmosDBProviderConfig {
        endpoint: emulator.endpoint(),
        key: emulator.key().to_owned(),
        bootstrap: Bootstrap::Skip,
        ..CosmosDBProviderConfig::default()
    };
    let provider = ok!(CosmosDBProvider::new_with_config(unchanged));
    let of_ada = || provider.instances_where(Search::CUSTOMER.eq("ada"));
    let found = of_ada().page(10, None).await.expect("a scan");
    assert!(found.rows.is_empty(), "{found:?}");
    let all = provider.instances_where(!Search::CUSTOMER.is_defined());
    assert!(all.count().await.expect("a count") > 10);
    let sorted = of_ada()
        .order_by(Search::CUSTOMER.asc())
        .page(10, None)
        .await;
    let refused = sorted.expect_err("no index gives the order").to_string();
    assert!(refused.contains("index"), "{refused}");

    open(&emulator).await;
    let sorted = of_ada()
        .order_by(Search::CUSTOMER.asc())
        .page(10, None)
        .await;
    sorted.expect("opening has added the index");
}

#[tokio::test]
async fn documents_of_the_old_provider_are_read_and_deleted() {
    let emulator = loaded::<OLD_PROVIDER>().await;
    let provider = open(&emulator).await;
    let client = Client::new(Arc::new(provider.clone()));
    let history = ok!(client.read_execution_history("completed", 1));
    assert_eq!(history.len(), 8);
    assert_eq!(
        client.list_executions("rounds").await.expect("executions"),
        [1, 2, 3]
    );
    let first = ok!(client.read_execution_history("rounds", 1));
    assert!(matches!(
        first.last().map(|event| &event.kind),
        Some(EventKind::OrchestrationContinuedAsNew { .. })
    ));
    let mut kept = client
        .get_kv_all_values("rounds")
        .await
        .expect("values")
        .into_iter()
        .collect::<Vec<_>>();
    kept.sort();
    let expected = KEPT
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    assert_eq!(kept, expected.collect::<Vec<_>>());
    let status = ok!(client.get_orchestration_status("rounds"));
    let OrchestrationStatus::Running { custom_status, .. } = status else {
        panic!("{status:?}");
    };
    assert_eq!(custom_status.as_deref(), Some("round 3"));
    let tree = client.get_instance_tree("parent").await.expect("a tree");
    assert_eq!(tree.all_ids.len(), 2, "{tree:?}");
    for instance in ["parent", "rounds", "session", HOSTILE] {
        ok!(client.delete_instance(instance, true));
    }
    let dump = RawContainer::of(&emulator).dump().await;
    for instance in ["parent", "parent::sub::2", "rounds", "session", HOSTILE] {
        let left: Vec<&str> = dump
            .lines()
            .skip(1)
            .filter(|line| parse(line)["instanceId"] == instance)
            .collect();
        assert!(left.is_empty(), "{left:#?}");
    }
}

/// Opens the provider. Fails with the reason.
async fn try_open(emulator: &Emulator) -> Result<CosmosDBProvider, String> {
    let config = CosmosDBProviderConfig {
        endpoint: emulator.endpoint(),
        key: emulator.key().to_owned(),
        ..CosmosDBProviderConfig::default()
    };
    let opened = CosmosDBProvider::new_with_config(config).await;
    opened.map_err(|error| {
        assert!(!error.is_retryable(), "{error}");
        error.to_string()
    })
}

async fn started() -> Emulator {
    let emulator = raw_container::emulator().start().await;
    emulator.expect("the emulator starts")
}

#[tokio::test]
async fn the_schema_version_is_written_once_and_read_at_every_opening() {
    let emulator = started().await;
    let opened = futures::future::join_all((0..4).map(|_| try_open(&emulator))).await;
    assert!(opened.iter().all(Result::is_ok), "{opened:?}");
    let dump = RawContainer::of(&emulator).dump().await;
    let schemas = dump.lines().filter(|line| parse(line)["type"] == "schema");
    assert_eq!(schemas.count(), 1);
    emulator.reset_requests();
    open(&emulator).await;
    let counted = emulator.requests();
    assert_eq!(
        counted.counts.get(&OperationKind::Read),
        Some(&1),
        "{counted:?}"
    );
    assert_eq!(
        counted.counts.get(&OperationKind::Batch),
        None,
        "{counted:?}"
    );
}

#[tokio::test]
async fn a_container_of_a_newer_schema_is_refused() {
    let emulator = started().await;
    let provider = open(&emulator).await;
    let newer = Schema {
        version: SCHEMA_VERSION + 1,
        written_by: "cdb-provider 9.0.0".to_owned(),
        ..Schema::current(provider.container().now())
    };
    ok!(provider.container().run(newer.upsert()));
    let refused = try_open(&emulator).await.expect_err("it is newer");
    says!(refused, "written by cdb-provider 9.0.0");
    assert!(refused.contains("supports up to 4"), "{refused}");
}

#[tokio::test]
async fn a_container_whose_limits_an_earlier_version_set_keeps_its_rules() {
    let emulator = started().await;
    let provider = open(&emulator).await;
    let rule = Rule::new("tenant=*".parse().expect("it is valid")).running(3);
    ok!(provider.set_limit(rule.clone(), "ada"));
    let container = provider.container();
    let former = Schema::current(container.now()).with_limits();
    container.run(former.upsert()).await.expect("it is written");
    let opened = open(&emulator).await;
    let limits = opened.limits().await.expect("a read");
    assert_eq!(limits.expect("they are kept").rules, [rule]);
    let key = SchemaKey::new(SCHEMA_PARTITION);
    let schema = container.read(&key).await.expect("a read");
    let schema = schema.expect("it is there").document;
    assert!(schema.has_permits(), "{schema:?}");
}

#[tokio::test]
async fn the_gate_for_older_runtimes_is_neither_work_nor_an_instance() {
    let emulator = started().await;
    let provider = open(&emulator).await;
    let depths = provider.get_queue_depths().await.expect("depths");
    assert_eq!((depths.orchestrator_queue, depths.worker_queue), (0, 0));
    assert_eq!(provider.list_instances().await, Ok(vec![]));
    let brief = std::time::Duration::from_millis(50);
    assert!(matches!(
        provider.fetch_orchestration_item(brief, brief, None).await,
        Ok(None)
    ));
    let work = provider
        .fetch_work_item(brief, brief, None, &TagFilter::Any)
        .await;
    assert!(matches!(work, Ok(None)), "{work:?}");
}

#[tokio::test]
async fn a_container_whose_schema_document_was_deleted_gets_another() {
    let emulator = started().await;
    let provider = open(&emulator).await;
    let schema = SchemaKey::new(SCHEMA_PARTITION);
    let container = provider.container();
    container.run(schema.delete()).await.expect("it is deleted");
    open(&emulator).await;
    let stored = container.read(&schema).await.expect("it can be read");
    assert!(stored.is_some());
}
