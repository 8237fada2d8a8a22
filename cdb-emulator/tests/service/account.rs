//! A minimal client, written from the protocol: it signs, sends and reads.

#[macro_use]
#[path = "../../../tests/support/ok.rs"]
mod ok;

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use cdb_emulator::{Emulator, Settings};
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::BodyExt;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::time::Instant;

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// Checks the status.
    #[track_caller]
    pub(crate) fn is(&self, status: u16) {
        assert_eq!(self.status, status, "{}", self.body);
    }

    /// Checks the status and a header.
    #[track_caller]
    pub(crate) fn has(&self, status: u16, header: &str, value: &str) {
        assert_eq!((self.status, self.header(header)), (status, value));
    }

    /// Returns the text of a header; empty if it is missing.
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// Returns the charge in request units.
    pub(crate) fn charge(&self) -> f64 {
        self.header("x-ms-request-charge")
            .parse()
            .expect("a charge")
    }

    /// Returns the rows of a query or feed.
    pub(crate) fn documents(&self) -> Vec<Value> {
        self.body["Documents"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    }

    /// Returns the status of every operation of a batch.
    pub(crate) fn statuses(&self) -> Vec<u64> {
        let results = self.body.as_array().into_iter().flatten();
        results
            .filter_map(|result| result["statusCode"].as_u64())
            .collect()
    }
}

/// Headers of a request.
pub(crate) type Headers<'a> = &'a [(&'a str, &'a str)];

/// A request before it is signed.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) method: Method,
    /// The resource type and link for the signature.
    pub(crate) resource: (&'a str, &'a str),
    pub(crate) path: &'a str,
    pub(crate) headers: Headers<'a>,
    pub(crate) body: Option<&'a Value>,
}

impl<'a> Request<'a> {
    /// A request without headers and body.
    pub(crate) fn new(method: Method, resource: (&'a str, &'a str), path: &'a str) -> Self {
        Self {
            method,
            resource,
            path,
            headers: &[],
            body: None,
        }
    }

    /// A request for the resource with this type and link.
    pub(crate) fn to(method: Method, kind: &'a str, link: &'a str) -> Self {
        Self::new(method, (kind, link), link)
    }

    /// A request for the documents of the container.
    pub(crate) fn docs(method: Method) -> Self {
        Self::new(method, ("docs", "dbs/db/colls/c"), "dbs/db/colls/c/docs")
    }

    /// A request for the container.
    pub(crate) fn container(method: Method) -> Self {
        Self::to(method, "colls", "dbs/db/colls/c")
    }

    /// A request that creates a container.
    pub(crate) fn new_container() -> Self {
        Self::new(Method::POST, ("colls", "dbs/db"), "dbs/db/colls")
    }

    /// A request for the physical partitions of the container.
    pub(crate) fn ranges() -> Self {
        let resource = ("pkranges", "dbs/db/colls/c");
        Self::new(Method::GET, resource, "dbs/db/colls/c/pkranges")
    }

    pub(crate) fn headers(self, headers: Headers<'a>) -> Self {
        Self { headers, ..self }
    }

    pub(crate) fn body(self, body: impl Into<Option<&'a Value>>) -> Self {
        let body = body.into();
        Self { body, ..self }
    }
}

/// An emulator with a container `db/c`, partitioned by `/pk`.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) emulator: Emulator,
    http: reqwest::Client,
    /// An instant of Tokio's clock, and the date at that instant.
    start: (Instant, SystemTime),
}

impl Account {
    /// Starts it with one physical partition and all paths indexed.
    pub(crate) async fn start() -> Self {
        Self::with(Emulator::start().await.expect("it starts"), json!({})).await
    }

    /// Starts an emulator without sockets. It and its clients follow Tokio's clock.
    pub(crate) async fn simulated(builder: Settings, definition: Value) -> Self {
        let emulator = builder.start_in_process().expect("it starts");
        Self::with(emulator, definition).await
    }

    /// Starts it with these properties of the container beside id and partition key.
    pub(crate) async fn with(emulator: Emulator, definition: Value) -> Self {
        let account = Self {
            emulator,
            http: http_client(),
            start: (Instant::now(), machine_time()),
        };
        let database = json!({ "id": "db" });
        let created = account.define(("dbs", ""), "dbs", &database).await;
        assert!(matches!(created.status, 201 | 409), "{created:?}");
        let mut body = definition;
        body["id"] = "c".into();
        if body["partitionKey"].is_null() {
            body["partitionKey"] = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
        }
        let created = account
            .define(("colls", "dbs/db"), "dbs/db/colls", &body)
            .await;
        assert!(matches!(created.status, 201 | 409), "{created:?}");
        account
    }

    async fn define(&self, resource: (&str, &str), path: &str, body: &Value) -> Answer {
        self.send(&Request::new(Method::POST, resource, path).body(body))
            .await
    }

    /// Sends a signed request.
    pub(crate) async fn send(&self, request: &Request<'_>) -> Answer {
        self.try_send(request).await.expect("an answer")
    }

    /// Like [`send`](Self::send); `None` if the connection breaks.
    async fn try_send(&self, request: &Request<'_>) -> Option<Answer> {
        let (token, date) = self.authorization(&request.method, request.resource);
        self.send_as(&token, &date, request).await
    }

    /// Returns the headers `authorization` and `x-ms-date` of a request.
    pub(crate) fn authorization(
        &self,
        method: &Method,
        (kind, link): (&str, &str),
    ) -> (String, String) {
        let date = httpdate::fmt_http_date(self.start.1 + self.start.0.elapsed());
        let text = format!(
            "{}\n{kind}\n{link}\n{}\n\n",
            method.as_str().to_lowercase(),
            date.to_lowercase()
        );
        let key = STANDARD.decode(self.emulator.key()).expect("base64");
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("any length");
        mac.update(text.as_bytes());
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        let token = format!("type=master&ver=1.0&sig={signature}");
        let token = utf8_percent_encode(&token, NON_ALPHANUMERIC).to_string();
        (token, date)
    }

    /// Sends a request with any authorization; `None` if the connection breaks.
    pub(crate) async fn send_as(
        &self,
        token: &str,
        date: &str,
        request: &Request<'_>,
    ) -> Option<Answer> {
        let endpoint = self.emulator.endpoint();
        self.exchange(&endpoint, (token, date), request).await
    }

    /// Sends a signed request to an endpoint of the account.
    pub(crate) async fn send_to(&self, endpoint: &str, request: &Request<'_>) -> Answer {
        let (token, date) = self.authorization(&request.method, request.resource);
        let answer = self.exchange(endpoint, (&token, &date), request).await;
        answer.expect("an answer")
    }

    async fn exchange(
        &self,
        endpoint: &str,
        (token, date): (&str, &str),
        request: &Request<'_>,
    ) -> Option<Answer> {
        let mut http = http::Request::builder()
            .method(request.method.clone())
            .uri(format!("{endpoint}{}", request.path))
            .header("authorization", token)
            .header("x-ms-date", date);
        if !request
            .headers
            .iter()
            .any(|(name, _)| *name == "x-ms-version")
        {
            http = http.header("x-ms-version", "2020-07-15");
        }
        for (name, value) in request.headers {
            http = http.header(*name, *value);
        }
        let body = request.body.map(Value::to_string).unwrap_or_default();
        let http = http.body(Bytes::from(body)).expect("a valid request");
        let (parts, body) = if endpoint.ends_with(".invalid/") {
            self.emulator.handle(http).await.ok()?.into_parts()
        } else {
            let sent = self.http.execute(http.try_into().expect("a URL")).await;
            let (parts, body) = http::Response::from(sent.ok()?).into_parts();
            (parts, body.collect().await.ok()?.to_bytes())
        };
        Some(Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: serde_json::from_slice(&body).unwrap_or_default(),
        })
    }

    /// Reads the database.
    pub(crate) async fn database(&self) -> Answer {
        self.send(&Request::to(Method::GET, "dbs", "dbs/db")).await
    }

    /// Sends `POST …/docs`.
    pub(crate) async fn post(&self, headers: Headers<'_>, body: &Value) -> Answer {
        self.send(&Request::docs(Method::POST).headers(headers).body(body))
            .await
    }

    /// Creates a document with partition key `p`.
    pub(crate) async fn create(&self, document: &Value) -> Answer {
        self.post(&[("x-ms-documentdb-partitionkey", r#"["p"]"#)], document)
            .await
    }

    /// Sends a request for one document with partition key `p`.
    pub(crate) async fn item(
        &self,
        method: Method,
        id: &str,
        headers: Headers<'_>,
        body: Option<&Value>,
    ) -> Answer {
        self.try_item(method, id, headers, body)
            .await
            .expect("an answer")
    }

    /// Like [`item`](Self::item); `None` if the connection breaks.
    pub(crate) async fn try_item(
        &self,
        method: Method,
        id: &str,
        headers: Headers<'_>,
        body: Option<&Value>,
    ) -> Option<Answer> {
        let link = format!("dbs/db/colls/c/docs/{id}");
        let path = format!(
            "dbs/db/colls/c/docs/{}",
            utf8_percent_encode(id, NON_ALPHANUMERIC)
        );
        let mut all = vec![("x-ms-documentdb-partitionkey", r#"["p"]"#)];
        all.extend(headers);
        self.try_send(
            &Request::new(method, ("docs", &link), &path)
                .headers(&all)
                .body(body),
        )
        .await
    }

    /// Sends a transactional batch to partition key `p`.
    pub(crate) async fn batch(&self, operations: &Value) -> Answer {
        let headers = [
            ("x-ms-documentdb-partitionkey", r#"["p"]"#),
            ("x-ms-cosmos-is-batch-request", "True"),
            ("x-ms-cosmos-batch-atomic", "True"),
        ];
        self.post(&headers, operations).await
    }

    /// Runs a query in the scope of the headers.
    pub(crate) async fn query(&self, headers: Headers<'_>, sql: &str, parameters: Value) -> Answer {
        let mut all = vec![
            ("x-ms-documentdb-isquery", "True"),
            ("content-type", "application/query+json"),
        ];
        all.extend(headers);
        self.post(&all, &json!({ "query": sql, "parameters": parameters }))
            .await
    }
}

/// Sends an unsigned request to a path, for example an admin route.
pub(crate) async fn ask(
    emulator: &Emulator,
    method: Method,
    path: &str,
    body: &str,
) -> (u16, Value) {
    let url = format!("{}{path}", emulator.endpoint());
    answer_of(http_client().request(method, url).body(body.to_owned())).await
}

/// Sends an unsigned request. Returns the status and the JSON of the response.
pub(crate) async fn answer_of(request: reqwest::RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.expect("an answer");
    let status = answer.status().as_u16();
    let body = answer.bytes().await.expect("a body");
    (status, serde_json::from_slice(&body).expect("JSON"))
}

/// Returns an HTTP client.
pub(crate) fn http_client() -> reqwest::Client {
    // The client requires a cryptography provider even for plain HTTP. Another test can have
    // installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::ClientBuilder::new().build().expect("a client")
}

/// Returns the time of the first signature.
#[expect(
    clippy::disallowed_methods,
    reason = "the test signs like any client, with its own clock"
)]
fn machine_time() -> SystemTime {
    SystemTime::now()
}
