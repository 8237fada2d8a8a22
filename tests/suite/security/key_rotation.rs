//! Rotation of both account keys while a runtime works.

use std::sync::Arc;

use cdb_emulator::Emulator;
use cdb_provider::client::MasterKey;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::providers::ProviderAdmin;

use super::{without_key, work_gets_done};

/// Three keys: base64 of 64 bytes each.
fn keys() -> [String; 3] {
    ["AAAA", "BBBB", "CCCC"].map(|part| format!("{}{}A==", part.repeat(21), &part[..1]))
}

/// An account whose key can be rotated: the same data and address, with another key.
struct Account {
    emulator: Option<Emulator>,
    port: u16,
    directory: tempfile::TempDir,
}

impl Account {
    async fn with_key(key: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut account = Self {
            emulator: None,
            port: 0,
            directory,
        };
        account.exchange_key(key).await;
        account
    }

    async fn exchange_key(&mut self, key: &str) {
        if let Some(emulator) = self.emulator.take() {
            emulator.stop().await;
        }
        let builder = Emulator::builder()
            .data_dir(self.directory.path())
            .port(self.port)
            .key(key);
        let emulator = builder.start().await.expect("the emulator starts");
        let endpoint = emulator.endpoint();
        let port = endpoint.trim_end_matches('/').rsplit(':').next();
        self.port = port.and_then(|port| port.parse().ok()).expect("a port");
        self.emulator = Some(emulator);
    }

    fn endpoint(&self) -> String {
        self.emulator.as_ref().expect("it runs").endpoint()
    }
}

#[tokio::test]
async fn a_provider_that_knows_both_keys_survives_the_exchange_of_the_first() {
    let [first, second, _] = keys();
    let mut account = Account::with_key(&first).await;
    let config = CosmosDBProviderConfig {
        key: first,
        secondary_key: Some(second.clone()),
        ..without_key(account.endpoint())
    };
    let provider = CosmosDBProvider::new_with_config(config).await;
    let provider = provider.expect("the first key is good");
    work_gets_done(&provider, "before").await;
    account.exchange_key(&second).await;
    work_gets_done(&provider, "after").await;
}

#[tokio::test]
async fn replaced_keys_are_used_by_an_open_provider() {
    let [first, _, third] = keys();
    let mut account = Account::with_key(&first).await;
    let key = MasterKey::new(&first).expect("a key");
    let config = CosmosDBProviderConfig {
        credential: Some(Arc::new(key.clone())),
        ..without_key(account.endpoint())
    };
    let provider = CosmosDBProvider::new_with_config(config).await;
    let provider = provider.expect("the first key is good");
    account.exchange_key(&third).await;
    let refused = provider
        .list_instances()
        .await
        .expect_err("the key is gone");
    assert!(refused.to_string().contains("401"), "{refused}");
    key.replace(&third, None).expect("a key");
    work_gets_done(&provider, "after").await;
}
