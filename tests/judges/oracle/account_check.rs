//! The account check on the emulator of the Cosmos team, so that the check itself is checked.

use std::sync::Arc;

use cdb_cli::account::{PROBES, Subject, run};
use cdb_client::transport::{HttpRequest, HttpResponse, Transport, TransportError, async_trait};
use cdb_client::{CosmosClient, MasterKey};
use cdb_second_store::{Theirs, query_body};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::differences::Right;
use crate::theirs::{GATEWAY, SATELLITE};

/// Sends to their emulator.
#[derive(Clone, Debug)]
struct Network(Arc<Theirs>);

#[async_trait]
impl Transport for Network {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let body = match request.headers.get("x-ms-documentdb-isquery") {
            Some(_) => query_body(&request.body),
            None => request.body.to_vec(),
        };
        let url = request.url.parse().expect("an address");
        let headers = request.headers.iter().map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes());
            (name.to_string(), value.into_owned())
        });
        let answer = self.0.send(&request.method, url, headers, body);
        let answer = answer.await;
        let mut headers = HeaderMap::new();
        for (name, value) in answer.headers().iter() {
            let name = HeaderName::try_from(name.as_str()).expect("a name");
            headers.insert(
                name,
                HeaderValue::try_from(value.as_str()).expect("a value"),
            );
        }
        Ok(HttpResponse {
            status: answer.status().into(),
            headers,
            body: answer.body().as_ref().to_vec().into(),
        })
    }
}

/// The questions that their emulator answers with no, the right emulator, and why.
const DIFFERENT: [(&str, Right, &str); 16] = [
    (
        "bulk",
        Right::Ours,
        "BatchAsyncBatcher.cs: operations are independent; theirs executes every list as a whole",
    ),
    (
        "aggregates",
        Right::Ours,
        "aggregate functions: theirs evaluates them in `SELECT VALUE` alone",
    ),
    (
        "group_by",
        Right::Ours,
        "aggregate functions: theirs evaluates them in `SELECT VALUE` alone",
    ),
    (
        "index",
        Right::Ours,
        "index-policy.md: a header has the progress; theirs has none",
    ),
    (
        "container_etag",
        Right::Ours,
        "REST, common request headers: If-Match of a DELETE; theirs ignores it",
    ),
    (
        "false_condition",
        Right::Ours,
        "transactional-batch.md lists PatchItem; theirs does not know the operation",
    ),
    (
        "incr",
        Right::Ours,
        "partial-document-update.md: incr creates the field with the value",
    ),
    (
        "time_condition",
        Right::Ours,
        "partial-document-update.md: theirs does not read conditions",
    ),
    (
        "since",
        Right::Ours,
        "change feed: theirs ignores If-Modified-Since",
    ),
    (
        "full_text",
        Right::Ours,
        "full-text search: theirs does not parse ORDER BY RANK",
    ),
    (
        "missing_vector",
        Right::Ours,
        "vector search: theirs has no VectorDistance",
    ),
    (
        "hybrid",
        Right::Ours,
        "hybrid search: theirs does not parse ORDER BY RANK",
    ),
    (
        "large_integers",
        Right::Ours,
        "concepts-limits.md: numbers are IEEE 754 doubles; theirs keeps 64 bits",
    ),
    (
        "expiry",
        Right::Ours,
        "time-to-live.md: theirs does not expire documents",
    ),
    (
        "latest_committed",
        Right::Ours,
        "request-units.md: each request has a charge; theirs has none for a 404",
    ),
    (
        "unknown_version",
        Right::Unknown,
        "theirs does not read x-ms-version; our source is an error text",
    ),
];

/// Time stands still for their emulator, which neither expires documents nor compares dates. It has
/// no tokens of Entra ID, and no patches in batches, which an orchestration needs.
#[tokio::test(start_paused = true)]
async fn their_emulator_answers_the_account_check() {
    let theirs = Theirs::in_regions(&[("East US", GATEWAY), ("West US", SATELLITE)]);
    let network = Network(Arc::new(theirs));
    let client = |endpoint| {
        let key = MasterKey::new(cdb_emulator::WELL_KNOWN_KEY).expect("a key");
        let client = CosmosClient::builder(endpoint).credential(key);
        client.transport(network.clone()).build().expect("a client")
    };
    let subject = Subject::new(client(GATEWAY)).with_satellite(client(SATELLITE));
    let names = PROBES.iter().map(|probe| probe.name);
    let names: Vec<&str> = names
        .filter(|name| !["entra", "hello"].contains(name))
        .collect();
    let answers = run(&subject, &names).await.answers;
    for answered in &answers {
        println!("{}: {}", answered.probe.name, answered.answer);
    }
    let no = answers.iter().filter(|answered| answered.answer.is_no());
    let no: Vec<&str> = no.map(|answered| answered.probe.name).collect();
    let known = DIFFERENT.map(|(name, _, _)| name);
    assert_eq!(
        no, known,
        "list it with the right emulator, or take it off the list"
    );
}
