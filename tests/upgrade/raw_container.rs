//! Containers as files: the definition on the first line, then a document per line, without the
//! service's fields.
//!
//! Uses HTTP directly, so that no document type changes what is written.

use cdb_emulator::{DataRole, Emulator, Settings};
use cdb_provider::model::PartitionKey;
use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::Value;

/// Where the container is.
pub(crate) const DATABASE: &str = "duroxide";
/// Its name.
pub(crate) const CONTAINER: &str = "duroxide";

const IDENTITY: &str = "fixture";
/// Fields that the service adds to a document.
const SYSTEM: [&str; 5] = ["_rid", "_self", "_etag", "_attachments", "_ts"];

/// The container of an emulator, as HTTP sees it.
#[derive(Debug)]
pub(crate) struct RawContainer {
    http: Client,
    url: String,
    authorization: String,
}

/// An emulator that accepts [`RawContainer`]'s credential.
pub(crate) fn emulator() -> Settings {
    Emulator::builder().identity(IDENTITY, DataRole::DataContributor)
}

impl RawContainer {
    /// Of this emulator.
    ///
    /// # Panics
    /// When no client can be made.
    pub(crate) fn of(emulator: &Emulator) -> Self {
        // A provider of cryptography is wanted even for plain HTTP; another test may have set it
        // already.
        let _already = rustls::crypto::ring::default_provider().install_default();
        let token = emulator.entra_token(IDENTITY, std::time::Duration::from_secs(3600));
        Self {
            http: reqwest::ClientBuilder::new().build().expect("a client"),
            url: format!("{}dbs/{DATABASE}/colls/{CONTAINER}", emulator.endpoint()),
            authorization: format!("type=aad&ver=1.0&sig={token}"),
        }
    }

    /// The container as a file.
    ///
    /// # Panics
    /// When it cannot be read.
    pub(crate) async fn dump(&self) -> String {
        let (definition, _) = self.json(self.http.get(&self.url)).await;
        let mut documents = Vec::new();
        let mut continuation = String::new();
        loop {
            let page = self.http.get(format!("{}/docs", self.url));
            let mut page = page.header("x-ms-max-item-count", "1000");
            if !continuation.is_empty() {
                page = page.header("x-ms-continuation", continuation);
            }
            let (body, next) = self.json(page).await;
            documents.extend(body["Documents"].as_array().cloned().expect("documents"));
            continuation = next;
            if continuation.is_empty() {
                break;
            }
        }
        let place = |document: &Value| {
            let text = |name: &str| document[name].as_str().unwrap_or_default().to_owned();
            (text("instanceId"), text("id"))
        };
        documents.sort_by_key(place);
        let mut lines = vec![definition];
        lines.extend(documents);
        let mut file = String::new();
        for line in &lines {
            file.push_str(&without_system_properties(line).to_string());
            file.push('\n');
        }
        file
    }

    async fn json(&self, request: RequestBuilder) -> (Value, String) {
        let answer = request.header("authorization", &self.authorization);
        let answer = answer.send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK);
        let next = answer.headers().get("x-ms-continuation");
        let next = next
            .and_then(|next| next.to_str().ok())
            .unwrap_or_default()
            .to_owned();
        let body = answer.text().await.expect("a body");
        (serde_json::from_str(&body).expect("JSON"), next)
    }

    /// Adds a document.
    ///
    /// # Panics
    /// When it cannot be added.
    pub(crate) async fn create(&self, document: &str) {
        let parsed: Value = serde_json::from_str(document).expect("JSON");
        let key = PartitionKey::from(parsed["instanceId"].as_str().expect("an instance"));
        let request = self.http.post(format!("{}/docs", self.url));
        let request = request
            .header("authorization", &self.authorization)
            .header("x-ms-documentdb-partitionkey", key.to_header())
            .body(document.to_owned());
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::CREATED, "{document}");
    }
}

fn without_system_properties(document: &Value) -> Value {
    let mut document = document.clone();
    if let Some(fields) = document.as_object_mut() {
        fields.retain(|name, _| !SYSTEM.contains(&name.as_str()));
    }
    document
}
