//! Failover between regions against scripts: where each attempt goes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use tokio::time::Instant;

use super::pipeline::{create, parts, pipeline, read};
use crate::credential::{Authorization, Credential, SigningContext};
use crate::error::{Error, ErrorKind};
use crate::protocol::header;
use crate::retry::{Pipeline, PipelineParts, RetryConfig};
use crate::transport::{
    Delivery, HttpRequest, HttpResponse, Script, Step, Transport, TransportError,
};

const GLOBAL: &str = "account.documents.azure.com";
const EAST: &str = "account-eastus.documents.azure.com";
const WEST: &str = "account-westus.documents.azure.com";

/// An account document with these write regions, and both regions for reads.
fn account(write: &[&str]) -> Step {
    account_with(write, "")
}

/// The same, with a member that is true.
fn account_with(write: &[&str], member: &str) -> Step {
    let region = |host: &str| json!({"name": name(host), "databaseAccountEndpoint": format!("https://{host}:443/")});
    let write: Vec<_> = write.iter().map(|&host| region(host)).collect();
    let readable = [region(EAST), region(WEST)];
    Step::json(&json!({"writableLocations": write, "readableLocations": readable, member: true}))
}

fn name(host: &str) -> &'static str {
    match host {
        EAST => "East US",
        _ => "West US",
    }
}

/// The account document of an account with one region, whose endpoint is unreachable for clients.
fn one_region() -> Step {
    let region = [json!({"name": "Local", "databaseAccountEndpoint": "https://172.17.0.2:8081/"})];
    Step::json(&json!({"writableLocations": region, "readableLocations": region}))
}

fn preferring(script: &Script, regions: &[&str]) -> Pipeline {
    Pipeline::new(PipelineParts {
        preferred_regions: regions.iter().map(|&region| region.to_owned()).collect(),
        ..parts(script)
    })
}

/// Returns method and host of each request, or `account HOST` for the account document.
fn sent(script: &Script) -> Vec<String> {
    let shown = |request: HttpRequest| {
        let url = request.url.trim_start_matches("https://");
        let (host, path) = url.split_once('/').unwrap();
        match path {
            "" => format!("account {host}"),
            _ => format!("{} {host}", request.method),
        }
    };
    script.requests().into_iter().map(shown).collect()
}

#[tokio::test(start_paused = true)]
async fn a_write_follows_the_write_region_over_new_connections() {
    for refusal in [(403, 3), (403, 1008)] {
        let script = Script::new([
            Step::refusal(refusal.0, refusal.1),
            account(&[WEST]),
            Step::status(201),
            Step::status(201),
        ]);
        let pipeline = pipeline(&script);
        pipeline.send(&create(), None).await.unwrap();
        pipeline.send(&create(), None).await.unwrap();
        let hosts = [
            format!("POST {GLOBAL}"),
            format!("account {GLOBAL}"),
            format!("POST {WEST}"),
            format!("POST {WEST}"),
        ];
        assert_eq!(sent(&script), hosts);
        assert_eq!(script.reconnects(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_waits_until_the_account_document_names_another_region() {
    let script = Script::new([
        Step::refusal(403, 3),
        account(&[EAST]),
        // The account document is not updated yet, so the old write region is asked again.
        Step::refusal(403, 3),
        Step::refusal(403, 3),
        Step::refusal(403, 3),
        account(&[WEST]),
        Step::status(201),
    ]);
    let started = Instant::now();
    let accepted = pipeline(&script).send(&create(), None).await.unwrap();
    assert_eq!(accepted.call.attempts, 5);
    assert_eq!(sent(&script).last().unwrap(), &format!("POST {WEST}"));
    let elapsed = started.elapsed();
    assert!(
        elapsed >= Duration::from_secs(1) && elapsed < Duration::from_secs(3),
        "{elapsed:?}"
    );
}

/// azure-cosmos-dotnet-v3 `ClientRetryPolicy.cs` retries 403/3 at the next region without delay, and
/// reads the account document when all regions have refused.
#[tokio::test(start_paused = true)]
async fn a_write_tries_all_regions_at_once_if_partitions_can_fail_over() {
    let failing_over = || account_with(&[EAST], "enablePerPartitionFailoverBehavior");
    let refused = || Step::refusal(403, 3);
    let script = Script::new([failing_over(), refused(), Step::status(201)]);
    let pipeline = preferring(&script, &["East US"]);
    pipeline.send(&create(), None).await.unwrap();
    script.extend([refused(), refused(), refused(), failing_over()]);
    script.extend([refused(), Step::status(201)]);
    tokio::time::advance(Duration::from_secs(1)).await;
    let started = Instant::now();
    pipeline.send(&create(), None).await.unwrap();
    let (east, west) = (format!("POST {EAST}"), format!("POST {WEST}"));
    assert_eq!(sent(&script)[1..3], [east.clone(), west.clone()]);
    let global = format!("POST {GLOBAL}");
    assert_eq!(sent(&script)[3..6], [east.clone(), west.clone(), global]);
    assert_eq!(sent(&script)[7..], [east, west]);
    let waited = started.elapsed();
    assert!(waited > Duration::ZERO && waited < Duration::from_secs(1));
    assert_eq!(script.reconnects(), 0);
}

/// azure_data_cosmos_driver `operation_pipeline.rs`, `apply_tentative_writes_header`.
#[tokio::test(start_paused = true)]
async fn writes_to_an_account_with_several_write_regions_say_so() {
    for (member, expected) in [("enableMultipleWriteLocations", true), ("", false)] {
        let script = Script::new([account_with(&[EAST, WEST], member)]);
        script.extend([Step::status(201), Step::status(200)]);
        let pipeline = preferring(&script, &["West US"]);
        pipeline.send(&create(), None).await.unwrap();
        pipeline.send(&read(), None).await.unwrap();
        assert_eq!(
            sent(&script)[1..],
            [format!("POST {WEST}"), format!("GET {WEST}")]
        );
        let requests = script.requests();
        let is_tentative =
            |request: &HttpRequest| request.headers.contains_key(header::ALLOW_TENTATIVE_WRITES);
        assert_eq!(is_tentative(&requests[1]), expected);
        assert!(!is_tentative(&requests[2]));
    }
}

#[tokio::test(start_paused = true)]
async fn an_account_with_one_region_is_asked_again_at_the_configured_endpoint() {
    let script = Script::new([Step::refusal(403, 3), one_region(), Step::status(201)]);
    pipeline(&script).send(&create(), None).await.unwrap();
    assert_eq!(sent(&script)[2], format!("POST {GLOBAL}"));
}

#[derive(Debug)]
struct FailoverWithoutEnd(std::sync::Mutex<u32>);

#[async_trait]
impl Transport for FailoverWithoutEnd {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let script = if request.url.ends_with(".com/") {
            *self.0.lock().unwrap() += 1;
            Script::new([account(&[EAST])])
        } else {
            Script::new([Step::refusal(403, 3)])
        };
        script.send(request).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_failover_without_end_fails_at_the_deadline_and_reads_the_account_once_a_second() {
    let transport = Arc::new(FailoverWithoutEnd(std::sync::Mutex::default()));
    let pipeline = Pipeline::new(PipelineParts {
        transport: transport.clone(),
        ..parts(&Script::default())
    });
    let error = pipeline.send(&create(), None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden);
    assert!(!error.is_ambiguous(), "{error}");
    let call = error.call().unwrap();
    assert!(call.elapsed <= RetryConfig::default().deadline);
    let accounts = *transport.0.lock().unwrap();
    assert!((2..=31).contains(&accounts), "{accounts} reads");
}

#[tokio::test(start_paused = true)]
async fn the_account_document_comes_from_another_region_if_the_configured_endpoint_is_down() {
    let script = Script::new([
        Step::refusal(403, 3),
        account(&[EAST]),
        Step::status(201),
        Step::refusal(403, 3),
        Step::NoAnswer(Delivery::NotSent),
        account(&[WEST]),
        Step::status(201),
    ]);
    let pipeline = pipeline(&script);
    pipeline.send(&create(), None).await.unwrap();
    tokio::time::advance(Duration::from_secs(2)).await;
    pipeline.send(&create(), None).await.unwrap();
    let hosts = sent(&script);
    assert_eq!(hosts[4], format!("account {GLOBAL}"));
    assert_eq!(hosts[5], format!("account {EAST}"));
    assert_eq!(hosts[6], format!("POST {WEST}"));
}

#[tokio::test(start_paused = true)]
async fn reads_go_to_the_preferred_region_and_writes_to_the_write_region() {
    let script = Script::new([account(&[EAST]), Step::status(200), Step::status(201)]);
    script.extend([Step::status(200)]);
    let pipeline = preferring(&script, &["West US"]);
    pipeline.send(&read(), None).await.unwrap();
    pipeline.send(&create(), None).await.unwrap();
    let latest = read().header(header::READ_CONSISTENCY, "LatestCommitted");
    pipeline.send(&latest, None).await.unwrap();
    let expected = [
        format!("account {GLOBAL}"),
        format!("GET {WEST}"),
        format!("POST {EAST}"),
        format!("GET {EAST}"),
    ];
    assert_eq!(sent(&script), expected);
}

#[tokio::test(start_paused = true)]
async fn a_read_falls_back_to_the_next_region_at_once() {
    for failure in [
        Step::NoAnswer(Delivery::NotSent),
        Step::NoAnswer(Delivery::Unknown),
        Step::refusal(503, 0),
        Step::refusal(404, 1002),
    ] {
        let script = Script::new([account(&[EAST]), failure, Step::status(200)]);
        let started = Instant::now();
        let pipeline = preferring(&script, &["West US"]);
        pipeline.send(&read(), None).await.unwrap();
        assert_eq!(sent(&script)[2], format!("GET {EAST}"));
        assert_eq!(started.elapsed(), Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn a_region_that_left_the_account_is_not_read_again() {
    let left = Step::json(&json!({
        "writableLocations": [{"name": "East US", "databaseAccountEndpoint": format!("https://{EAST}/")}],
        "readableLocations": [{"name": "East US", "databaseAccountEndpoint": format!("https://{EAST}/")},
            {"name": "North", "databaseAccountEndpoint": "https://account-north.documents.azure.com/"}],
    }));
    let script = Script::new([account(&[EAST]), Step::status(200)]);
    let pipeline = preferring(&script, &["West US", "East US"]);
    pipeline.send(&read(), None).await.unwrap();
    tokio::time::advance(Duration::from_secs(60)).await;
    script.extend([Step::refusal(403, 1008), left]);
    script.extend([Step::status(200), Step::status(200)]);
    pipeline.send(&read(), None).await.unwrap();
    pipeline.send(&read(), None).await.unwrap();
    let east = format!("GET {EAST}");
    assert_eq!(sent(&script)[4..], [east.clone(), east]);
}

#[tokio::test(start_paused = true)]
async fn without_an_account_document_reads_go_to_the_configured_endpoint() {
    let script = Script::new([Step::refusal(403, 5301), Step::status(200)]);
    let pipeline = preferring(&script, &["West US"]);
    pipeline.send(&read(), None).await.unwrap();
    assert_eq!(sent(&script)[1], format!("GET {GLOBAL}"));
}

#[tokio::test(start_paused = true)]
async fn requests_beyond_the_connection_limit_wait_until_their_deadline() {
    let script = Script::new([Step::Hang, Step::status(200)]);
    let pipeline = Arc::new(pipeline(&script));
    let hanging = tokio::spawn({
        let pipeline = pipeline.clone();
        async move { pipeline.send(&create(), None).await.map(drop) }
    });
    tokio::task::yield_now().await;
    let started = Instant::now();
    // The attempt that hangs ends after its time-out, and frees its connection.
    pipeline.send(&read(), None).await.unwrap();
    assert_eq!(started.elapsed(), RetryConfig::default().attempt_timeout);
    assert!(hanging.await.unwrap().unwrap_err().is_ambiguous());

    let slow = RetryConfig::default().with_attempt_timeout(Duration::from_secs(100));
    let script = Script::new([Step::Hang]);
    let parts = PipelineParts {
        retry: slow,
        ..parts(&script)
    };
    let pipeline = Pipeline::new(parts);
    let (first, second) = (create(), create());
    let (hung, waited) = tokio::join!(pipeline.send(&first, None), pipeline.send(&second, None));
    let error = waited.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(!error.is_ambiguous() && hung.unwrap_err().is_ambiguous());
    assert!(error.to_string().contains("max_connections"), "{error}");
}

/// Answers with the account document after two seconds, and with 200.
#[derive(Debug, Default)]
struct SlowAccount(std::sync::Mutex<u32>);

#[async_trait]
impl Transport for SlowAccount {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let is_account = request.url.ends_with(".com/");
        if is_account {
            *self.0.lock().unwrap() += 1;
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        let step = if is_account {
            account(&[EAST])
        } else {
            Step::status(200)
        };
        Script::new([step]).send(request).await
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_share_a_slow_account_document() {
    let transport = Arc::new(SlowAccount::default());
    let pipeline = Pipeline::new(PipelineParts {
        transport: transport.clone(),
        preferred_regions: vec!["West US".to_owned()],
        connections: 10,
        ..parts(&Script::default())
    });
    let started = Instant::now();
    let request = read();
    let sent = (0..10).map(|_| pipeline.send(&request, None));
    futures::future::try_join_all(sent).await.unwrap();
    assert_eq!(*transport.0.lock().unwrap(), 1);
    assert_eq!(started.elapsed(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn an_account_document_that_may_not_be_read_costs_no_connections() {
    let script = Script::new([Step::refusal(403, 5301)]);
    script.extend((0..5).map(|_| Step::status(200)));
    let pipeline = preferring(&script, &["West US"]);
    for _ in 0..5 {
        pipeline.send(&read(), None).await.unwrap();
        tokio::time::advance(Duration::from_secs(2)).await;
    }
    assert_eq!(script.reconnects(), 0);
}

/// A credential that has no authorization for the account document.
#[derive(Debug)]
struct ContainersOnly;

#[async_trait]
impl Credential for ContainersOnly {
    async fn authorize(&self, context: &SigningContext<'_>) -> Result<Authorization, Error> {
        match context.resource_type {
            "" => Err(Error::unauthorized("no token for the account")),
            _ => Authorization::new("token", 0),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_credential_without_a_token_for_the_account_reads_the_configured_endpoint() {
    let script = Script::new([Step::status(200)]);
    let pipeline = Pipeline::new(PipelineParts {
        credential: Arc::new(ContainersOnly),
        preferred_regions: vec!["West US".to_owned()],
        ..parts(&script)
    });
    pipeline.send(&read(), None).await.unwrap();
    assert_eq!(sent(&script), [format!("GET {GLOBAL}")]);
}
