//! Requests that the typed client does not send, with its authorization.

use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_client::transport::http::header::CONTENT_TYPE;
use cdb_client::transport::http::{HeaderMap, HeaderName, HeaderValue, Method};
use cdb_client::write::RawTarget;
use cdb_model::{Container, PartitionKey};
use serde_json::Value;

use crate::doctor::account::answer::Failure;

/// The version that the client sends.
const VERSION: (&str, &str) = ("x-ms-version", "2020-07-15");

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Raw<'a> {
    method: Method,
    target: RawTarget<'a>,
    headers: Vec<(&'static str, String)>,
    body: Value,
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// 0 without one.
    pub(crate) substatus: u32,
    /// `Null` without one.
    pub(crate) body: Value,
}

impl<'a> Raw<'a> {
    pub(crate) fn new(method: Method, target: RawTarget<'a>) -> Self {
        Self::without_version(method, target).with(VERSION.0, VERSION.1)
    }

    pub(crate) fn without_version(method: Method, target: RawTarget<'a>) -> Self {
        Self {
            method,
            target,
            headers: Vec::new(),
            body: Value::Null,
        }
    }

    /// A read of an item.
    pub(crate) fn read(partition: &str, id: &'a str) -> Self {
        Self::new(Method::GET, RawTarget::Item(id)).in_partition(partition)
    }

    /// A patch of an item.
    pub(crate) fn patch(partition: &str, id: &'a str, operations: &Value) -> Self {
        let patch = Self::new(Method::PATCH, RawTarget::Item(id)).in_partition(partition);
        patch
            .with("content-type", "application/json_patch+json")
            .json(serde_json::json!({ "operations": operations }))
    }

    /// An atomic batch. Source: azure-cosmos-dotnet-v3 `TransactionalBatch`.
    pub(crate) fn batch(partition: &str, operations: Value) -> Self {
        Self::new(Method::POST, RawTarget::Items)
            .in_partition(partition)
            .with("x-ms-cosmos-is-batch-request", "True")
            .with("x-ms-cosmos-batch-atomic", "True")
            .with("x-ms-cosmos-batch-continue-on-error", "False")
            .json(operations)
    }

    pub(crate) fn in_partition(self, key: &str) -> Self {
        let key = PartitionKey::from(key).to_header();
        self.with("x-ms-documentdb-partitionkey", &key)
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn json(mut self, body: Value) -> Self {
        self.body = body;
        self
    }

    /// Sends the request; once more after each 429.
    pub(crate) async fn send<C: Container>(
        &self,
        container: &ContainerClient<C>,
    ) -> Result<Reply, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in &self.headers {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value)?);
        }
        let body = match &self.body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        loop {
            let (method, headers) = (self.method.clone(), headers.clone());
            let sent = container.send_raw(method, self.target, headers, body.clone().into());
            let answer = sent.await?;
            let number = |name: &str| answer.headers.get(name)?.to_str().ok()?.parse().ok();
            if answer.status == 429 {
                let millis = number("x-ms-retry-after-ms").unwrap_or(100);
                tokio::time::sleep(Duration::from_millis(millis)).await;
                continue;
            }
            let substatus = number("x-ms-substatus").unwrap_or_default();
            return Ok(Reply {
                status: answer.status,
                substatus: u32::try_from(substatus)?,
                body: serde_json::from_slice(&answer.body).unwrap_or_default(),
            });
        }
    }
}

impl Reply {
    /// Status, sub-status, and the message of a refusal.
    pub(crate) fn outline(&self) -> String {
        let message = self.body["message"].as_str().unwrap_or_default();
        let message = message.lines().next().unwrap_or_default();
        let cut: String = message.chars().take(100).collect();
        match self.substatus {
            0 => format!("{} {cut}", self.status).trim_end().to_owned(),
            sub => format!("{}/{sub} {cut}", self.status).trim_end().to_owned(),
        }
    }
}
