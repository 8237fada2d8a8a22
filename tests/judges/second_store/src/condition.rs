//! Conditions of patches, evaluated by their query engine.
//!
//! A batch judges a condition against its own writes, which no query sees yet. So the document is
//! written into an account that serves nothing else, and queried there.

use std::sync::atomic::{AtomicU64, Ordering};

use http::Method;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::Theirs;
use crate::sql::in_single_quotes;

const GATEWAY: &str = "https://conditions.emulator.local";
const DOCUMENTS: &str = "/dbs/conditions/colls/documents/docs";
/// The property with the partition key; each document has a partition of its own.
const KEY: &str = "conditionKey";

/// An account that judges conditions.
#[derive(Debug)]
pub(crate) struct Conditions {
    account: Theirs,
    created: OnceCell<()>,
    last: AtomicU64,
}

impl Conditions {
    pub(crate) fn new() -> Self {
        Self {
            account: Theirs::in_regions(&[("East US", GATEWAY)]),
            created: OnceCell::new(),
            last: AtomicU64::default(),
        }
    }

    /// Whether `condition`, of the form `FROM c WHERE …`, holds for a document. Returns their
    /// message if they do not understand it.
    pub(crate) async fn holds(&self, condition: &str, document: &Value) -> Result<bool, String> {
        self.created.get_or_init(|| self.create()).await;
        let key = self.last.fetch_add(1, Ordering::Relaxed);
        let mut document = document.clone();
        document[KEY] = key.into();
        self.ask(DOCUMENTS, Some(key), false, &document).await?;
        let sql = format!("SELECT VALUE 1 {}", in_single_quotes(condition));
        let query = json!({ "query": sql });
        let answer = self.ask(DOCUMENTS, Some(key), true, &query).await?;
        Ok(answer["_count"] == 1)
    }

    async fn create(&self) {
        let container = json!({
            "id": "documents", "partitionKey": { "paths": [format!("/{KEY}")], "kind": "Hash", "version": 2 },
        });
        let database = json!({ "id": "conditions" });
        let created = self.ask("/dbs", None, false, &database).await;
        created.expect("the account is empty");
        let created = self.ask("/dbs/conditions/colls", None, false, &container);
        created.await.expect("the database is empty");
    }

    async fn ask(
        &self,
        path: &str,
        key: Option<u64>,
        is_query: bool,
        body: &Value,
    ) -> Result<Value, String> {
        let mut url = self.account.gateway().clone();
        url.set_path(path);
        let key = key.map(|key| ("x-ms-documentdb-partitionkey", format!("[{key}]")));
        let query = is_query.then(|| ("x-ms-documentdb-isquery", "True".to_owned()));
        let headers = key.into_iter().chain(query);
        let headers = headers.map(|(name, value)| (name.to_owned(), value));
        let body = body.to_string().into_bytes();
        let answer = self.account.send(&Method::POST, url, headers, body).await;
        let body = serde_json::from_slice(answer.body().as_ref()).unwrap_or(Value::Null);
        match u16::from(answer.status()) {
            200..300 => Ok(body),
            _ => Err(body["message"].as_str().unwrap_or_default().to_owned()),
        }
    }
}
