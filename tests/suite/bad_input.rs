//! Invalid input is refused before any write, with an error that names it.

use std::time::Duration;

use cdb_provider::client::{Bootstrap, CosmosClient, MasterKey};
use cdb_provider::model::{Container, Document};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use cdb_tests::Backend;
use duroxide::providers::{Provider, ProviderAdmin, ProviderError, WorkItem};
use serde::{Deserialize, Serialize};

/// An emulator's key: base64 of the right length.
const KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

fn message(instance: &str, data: String) -> WorkItem {
    crate::work_items::event_of(instance, "Event", data)
}

/// Checks that the error is permanent and contains these words.
fn refused<T>(result: Result<T, ProviderError>, words: &[&str]) {
    let Err(error) = result else {
        panic!("it was accepted");
    };
    assert!(!error.is_retryable(), "no retry can help: {error}");
    for word in words {
        assert!(error.to_string().contains(word), "no `{word}` in: {error}");
    }
}

#[tokio::test]
async fn a_malformed_endpoint_is_named() {
    for endpoint in [
        "",
        "account.documents.azure.com",
        "ftp://account",
        "https://",
    ] {
        let opened = CosmosDBProvider::new(endpoint, KEY, "duroxide").await;
        refused(opened, &["endpoint", "https://account"]);
    }
}

#[tokio::test]
async fn a_malformed_key_is_refused_and_not_repeated() {
    let opened = CosmosDBProvider::new("http://127.0.0.1:1", "not base64!", "duroxide").await;
    let error = opened.expect_err("a key is base64");
    assert!(!error.is_retryable());
    assert!(error.to_string().contains("key"), "{error}");
    assert!(!error.to_string().contains("not base64!"), "{error}");
}

#[tokio::test]
async fn a_wrong_key_is_distinguished_from_a_broken_connection() {
    let backend = Backend::start().await;
    let Some(emulator) = backend.emulator() else {
        println!("skipped: an account is not to be asked with a wrong key");
        return;
    };
    let other = KEY.replace("C2y6", "D3z7");
    let opened = CosmosDBProvider::new(&emulator.endpoint(), &other, "duroxide").await;
    refused(opened, &["401", "refuses the key"]);
}

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "customer", id = "{country}")]
struct Customer {
    #[document(partition_key)]
    country: String,
}

#[derive(Container, Clone, Debug)]
#[container(partition_key = "/country")]
enum Customers {
    Customer(Customer),
}

#[tokio::test]
async fn a_container_with_another_partition_key_is_not_opened() {
    let backend = Backend::start().await;
    let Some(emulator) = backend.emulator() else {
        println!("skipped: this database is the emulator's");
        return;
    };
    let key = MasterKey::new(emulator.key()).expect("the emulator's key is one");
    let client = CosmosClient::builder(emulator.endpoint()).credential(key);
    client
        .build()
        .expect("a client")
        .database("shop")
        .bootstrap::<Customers>("customers", Bootstrap::CreateIfMissing)
        .await
        .expect("the container is created");
    let (endpoint, key) = (emulator.endpoint(), emulator.key());
    let opened = CosmosDBProvider::new_with_container(&endpoint, key, "shop", "customers").await;
    refused(opened, &["customers", "/country", "/instanceId"]);
}

#[tokio::test]
async fn a_missing_container_is_named_when_creation_is_forbidden() {
    let backend = Backend::start().await;
    let Some(emulator) = backend.emulator() else {
        println!("skipped: this database is the emulator's");
        return;
    };
    let opened = CosmosDBProvider::new_with_config(CosmosDBProviderConfig {
        endpoint: emulator.endpoint(),
        key: emulator.key().to_owned(),
        database: "absent".to_owned(),
        bootstrap: Bootstrap::VerifyOnly,
        ..CosmosDBProviderConfig::default()
    })
    .await;
    let error = opened.expect_err("nothing is there and nothing may be created");
    assert!(error.to_string().contains("absent"), "{error}");
}

#[tokio::test]
async fn an_instance_id_too_long_for_the_service_is_refused_at_once() {
    let backend = Backend::start().await;
    let provider = backend.provider().await;
    let endless = "x".repeat(3_000);
    let enqueued = provider.enqueue_for_orchestrator(message(&endless, String::new()), None);
    refused(enqueued.await, &["instance_id", "1023"]);
    let instances = provider.list_instances().await.expect("a list");
    assert!(instances.is_empty(), "{instances:?}");
    let depths = provider.get_queue_depths().await.expect("depths");
    assert_eq!(depths.orchestrator_queue, 0);
    backend.stop().await;
}

#[tokio::test]
async fn a_message_above_the_limit_is_refused_at_once() {
    let backend = Backend::start_with(|config| {
        config.max_value_bytes = 1_000_000;
        config.payload_codec = None; // the limit counts encoded bytes
    })
    .await;
    let provider = backend.provider().await;
    let large = message("large", "x".repeat(2_200_000));
    refused(
        provider.enqueue_for_orchestrator(large, None).await,
        &["2200", "1000000", "max_value_bytes"],
    );
    let depths = provider.get_queue_depths().await.expect("depths");
    assert_eq!(depths.orchestrator_queue, 0);
    backend.stop().await;
}

#[tokio::test]
async fn a_completion_for_a_deleted_instance_is_dropped() {
    let backend = Backend::start().await;
    let provider = backend.provider().await;
    let end = WorkItem::SubOrchCompleted {
        parent_instance: "deleted".to_owned(),
        parent_execution_id: 1,
        parent_id: 2,
        result: "late".to_owned(),
    };
    let enqueued = provider.enqueue_for_orchestrator(end, None).await;
    enqueued.expect("the receiver is not checked");
    let lock = Duration::from_secs(5);
    let depths = async || provider.get_queue_depths().await.expect("depths");
    assert_eq!(depths().await.orchestrator_queue, 1);
    let fetched = provider.fetch_orchestration_item(lock, Duration::ZERO, None);
    assert!(fetched.await.expect("fetch").is_none());
    assert_eq!(depths().await.orchestrator_queue, 0);
    backend.stop().await;
}
