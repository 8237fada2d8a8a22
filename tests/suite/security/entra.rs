//! Identities of Microsoft Entra ID, which may use containers and not create them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use azure_core::credentials::{AccessToken, TokenCredential, TokenRequestOptions};
use azure_core::time::OffsetDateTime;
use cdb_emulator::{DataRole, Emulator};
use cdb_provider::client::credential::EntraId;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::providers::{Provider, ProviderAdmin};

use super::{without_key, work_gets_done};

/// An identity of the emulator, whose first tokens may be invalid.
#[derive(Debug)]
struct Identity {
    emulator: Arc<Emulator>,
    object_id: &'static str,
    spoiled: u32,
    fetched: AtomicU32,
}

impl Identity {
    fn new(emulator: &Arc<Emulator>, object_id: &'static str) -> Arc<Self> {
        Self::with_spoiled_tokens(emulator, object_id, 0)
    }

    fn with_spoiled_tokens(
        emulator: &Arc<Emulator>,
        object_id: &'static str,
        spoiled: u32,
    ) -> Arc<Self> {
        Arc::new(Self {
            emulator: emulator.clone(),
            object_id,
            spoiled,
            fetched: AtomicU32::new(0),
        })
    }
}

#[async_trait]
impl TokenCredential for Identity {
    async fn get_token(
        &self,
        _: &[&str],
        _: Option<TokenRequestOptions<'_>>,
    ) -> azure_core::Result<AccessToken> {
        let lifetime = Duration::from_secs(3600);
        let token = match self.fetched.fetch_add(1, Ordering::SeqCst) {
            number if number < self.spoiled => "spoiled".to_owned(),
            _ => self.emulator.entra_token(self.object_id, lifetime),
        };
        Ok(AccessToken::new(
            token,
            OffsetDateTime::now_utc() + lifetime,
        ))
    }
}

async fn emulator() -> Arc<Emulator> {
    let builder = Emulator::builder()
        .identity("app", DataRole::DataContributor)
        .identity("auditor", DataRole::DataReader);
    Arc::new(builder.start().await.expect("the emulator starts"))
}

/// Creates the container with the account's key, like an administrator.
async fn administered(emulator: &Emulator) {
    CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide")
        .await
        .expect("a key may create");
}

async fn open(emulator: &Emulator, identity: Arc<Identity>) -> Result<CosmosDBProvider, String> {
    let opened = CosmosDBProvider::new_with_config(CosmosDBProviderConfig {
        credential: Some(Arc::new(EntraId::new(identity))),
        ..without_key(emulator.endpoint())
    });
    opened.await.map_err(|error| {
        assert!(!error.is_retryable(), "{error}");
        error.to_string()
    })
}

#[tokio::test]
async fn an_identity_without_create_rights_works_in_an_existing_container() {
    let emulator = emulator().await;
    administered(&emulator).await;
    let identity = Identity::new(&emulator, "app");
    let provider = ok!(open(&emulator, identity.clone()));
    work_gets_done(&provider, "entra").await;
    assert_eq!(
        identity.fetched.load(Ordering::SeqCst),
        1,
        "one token serves all requests"
    );
}

#[tokio::test]
async fn missing_resources_are_named_for_an_administrator() {
    let emulator = emulator().await;
    let refused = open(&emulator, Identity::new(&emulator, "app")).await;
    let text = refused.expect_err("it may not create");
    for word in [
        "403/5300",
        "container `duroxide` of database `duroxide`",
        "an administrator has to create database and container",
        "partition key /instanceId",
        "default time to live -1",
    ] {
        assert!(text.contains(word), "no `{word}` in: {text}");
    }
}

#[tokio::test]
async fn an_identity_without_a_role_is_told_which_one_it_lacks() {
    let emulator = emulator().await;
    administered(&emulator).await;
    let refused = open(&emulator, Identity::new(&emulator, "stranger")).await;
    let text = refused.expect_err("it has no role");
    assert!(text.contains("403/5301"), "{text}");
    says!(text, "Cosmos DB Built-in Data Contributor");
}

#[tokio::test]
async fn a_reader_reads_and_is_refused_what_it_may_not_write() {
    let emulator = emulator().await;
    administered(&emulator).await;
    let provider = open(&emulator, Identity::new(&emulator, "auditor")).await;
    let provider = provider.expect("reading is enough to open");
    assert_eq!(provider.list_instances().await, Ok(vec![]));
    let item = crate::work_items::event_of("i", "Event", "");
    let error = provider.enqueue_for_orchestrator(item, None).await;
    let error = error.expect_err("it may not write");
    // A role can be assigned while the program works.
    assert!(error.is_retryable());
    assert!(error.to_string().contains("items/create"), "{error}");
}

#[tokio::test]
async fn a_refused_token_is_replaced_without_a_failed_call() {
    let emulator = emulator().await;
    administered(&emulator).await;
    let identity = Identity::with_spoiled_tokens(&emulator, "app", 1);
    let provider = ok!(open(&emulator, identity.clone()));
    work_gets_done(&provider, "renewed").await;
    assert_eq!(identity.fetched.load(Ordering::SeqCst), 2);
}
