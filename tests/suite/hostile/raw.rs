//! A container with untyped access: documents of any form, as another program writes them.

use cdb_emulator::Emulator;
use cdb_provider::model::PartitionKey;
use reqwest::{Client, RequestBuilder};
use serde_json::Value;

use crate::harness::TestEnv;

/// The container of a test environment's emulator.
pub(crate) struct Raw {
    http: Client,
    url: String,
    authorization: String,
}

impl Raw {
    /// `None` on an account, which would need other rights.
    pub(crate) fn of(env: &TestEnv) -> Option<Self> {
        let container = env.provider.container().name();
        Some(Self::on(env.emulator()?, container))
    }

    /// A container of an emulator.
    pub(crate) fn on(emulator: &Emulator, container: &str) -> Self {
        // A cryptography provider is needed even for plain HTTP. Another test may have set it
        // already.
        let _already = rustls::crypto::ring::default_provider().install_default();
        let hour = std::time::Duration::from_secs(3600);
        let token = emulator.entra_token(cdb_tests::IDENTITY, hour);
        Self {
            http: reqwest::ClientBuilder::new().build().expect("a client"),
            url: format!("{}dbs/duroxide/colls/{container}/docs", emulator.endpoint()),
            authorization: format!("type=aad&ver=1.0&sig={token}"),
        }
    }

    /// Creates or replaces a document.
    pub(crate) async fn put(&self, document: &Value) {
        // A partition key that is not a string goes into the header as it is.
        let key = match document["instanceId"].as_str() {
            Some(instance) => PartitionKey::from(instance).to_header(),
            None => format!("[{}]", document["instanceId"]),
        };
        let request = self.http.post(&self.url).body(document.to_string());
        let request = request
            .header("x-ms-documentdb-partitionkey", key)
            .header("x-ms-documentdb-is-upsert", "True");
        self.send(request).await;
    }

    /// All documents of the container as JSON.
    pub(crate) async fn text(&self) -> String {
        let page = self.http.get(&self.url);
        self.send(page.header("x-ms-max-item-count", "1000")).await
    }

    /// All documents of an instance.
    pub(crate) async fn documents(&self, instance: &str) -> Vec<Value> {
        let page: Value = serde_json::from_str(&self.text().await).expect("JSON");
        let documents = page["Documents"].as_array().expect("documents");
        assert!(documents.len() < 1000, "there are more on the next page");
        let its = documents.iter();
        its.filter(|document| document["instanceId"] == instance)
            .cloned()
            .collect()
    }

    /// The documents of an instance that are of one type.
    pub(crate) async fn of_type(&self, instance: &str, r#type: &str) -> Vec<Value> {
        let mut documents = self.documents(instance).await;
        documents.retain(|document| document["type"] == r#type);
        documents
    }

    /// Changes one document of this type.
    pub(crate) async fn damage(
        &self,
        instance: &str,
        r#type: &str,
        damage: impl FnOnce(&mut Value),
    ) {
        let mut documents = self.of_type(instance, r#type).await;
        let document = documents.last_mut().expect("there is one");
        damage(document);
        self.put(document).await;
    }

    async fn send(&self, request: RequestBuilder) -> String {
        let answer = request.header("authorization", &self.authorization);
        let answer = answer.send().await.expect("an answer");
        let status = answer.status();
        let body = answer.text().await.expect("a body");
        assert!(status.is_success(), "{status}: {body}");
        body
    }
}
