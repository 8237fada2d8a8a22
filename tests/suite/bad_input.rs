//! Invalid input is refused before any write, with an error that names it.

use std::time::Duration;

use cdb_provider::CosmosDBProvider;
use cdb_tests::Backend;
use duroxide::providers::{Provider, ProviderAdmin, ProviderError, WorkItem};

use crate::harness::finds_turn;

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
    let emulator = or_skip!(backend.emulator(), "needs the emulator");
    let other = KEY.replace("C2y6", "D3z7");
    let opened = CosmosDBProvider::new(&emulator.endpoint(), &other, "duroxide").await;
    refused(opened, &["401", "refuses the key"]);
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
    assert!(!finds_turn(&provider, lock, Duration::ZERO).await);
    assert_eq!(depths().await.orchestrator_queue, 0);
    backend.stop().await;
}
