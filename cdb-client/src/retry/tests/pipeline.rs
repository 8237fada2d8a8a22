//! The retry loop against scripts: what is sent again, when, and which error the caller gets.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method};
use tokio::time::Instant;

use crate::credential::{Authorization, Credential, MasterKey, SigningContext};
use crate::error::{Error, ErrorKind, RequestKind};
use crate::partitions::{SessionScope, SessionTokens};
use crate::protocol::{Accepted, Repeat, Request, Resource};
use crate::retry::{Jitter, Observers, Pipeline, PipelineParts, RetryConfig};
use crate::transport::{Delivery, Script, Step};

const PRIMARY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
const SECONDARY: &str =
    "dsZQi3KtZmCv1ljt3VNWNm7sQUF1y5rJfC6kv5JiwvW0EndXdDku/dkKBp8/ufDToSxLzR4y+O/0H/t4bQtVNw==";

pub(super) fn pipeline(script: &Script) -> Pipeline {
    Pipeline::new(parts(script))
}

fn observing(sessions: &SessionTokens) -> Observers<'_> {
    Observers {
        sessions: Some(sessions),
        ..Observers::default()
    }
}

pub(super) fn parts(script: &Script) -> PipelineParts {
    let credential = MasterKey::new(PRIMARY)
        .unwrap()
        .with_secondary(SECONDARY)
        .unwrap();
    PipelineParts {
        endpoint: "https://account.documents.azure.com".to_owned(),
        user_agent: HeaderValue::from_static("cdb"),
        transport: Arc::new(script.clone()),
        credential: Arc::new(credential),
        retry: RetryConfig::default(),
        background: crate::throughput::BackgroundConfig::default(),
        preferred_regions: Vec::new(),
        connections: 1,
        jitter: Jitter::from_source(|| 1.0),
    }
}

pub(super) fn read() -> Request {
    let item = Resource::container("db", "c").item("a").unwrap();
    Request::new(RequestKind::Read, Method::GET, item).session(SessionScope::Container)
}

pub(super) fn create() -> Request {
    Request::new(
        RequestKind::Create,
        Method::POST,
        Resource::container("db", "c").items(),
    )
    .body("application/json", Bytes::from_static(b"{}"))
}

async fn play(request: Request, steps: Vec<Step>) -> (Result<Accepted, Error>, Script) {
    let script = Script::new(steps);
    let result = pipeline(&script).send(&request, None).await;
    assert_eq!(script.steps_left(), 0);
    (result, script)
}

#[tokio::test(start_paused = true)]
async fn a_read_is_retried_after_a_lost_answer() {
    let steps = vec![Step::NoAnswer(Delivery::Unknown), Step::status(200)];
    let (result, script) = play(read(), steps).await;
    assert_eq!(result.unwrap().status.code, 200);
    assert_eq!(script.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_create_is_ambiguous_and_not_retried_after_a_lost_answer() {
    for step in [
        Step::NoAnswer(Delivery::Unknown),
        Step::refusal(408, 0),
        Step::refusal(500, 0),
    ] {
        let (result, script) = play(create(), vec![step]).await;
        let error = result.unwrap_err();
        assert!(error.is_ambiguous(), "{error}");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(script.requests().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_create_that_was_not_executed_is_retried() {
    let steps = vec![
        Step::NoAnswer(Delivery::NotSent),
        Step::refusal(503, 0),
        Step::refusal(449, 0),
        Step::refusal(429, 3200),
        Step::status(201),
    ];
    let (result, _) = play(create(), steps).await;
    assert_eq!(result.unwrap().status.code, 201);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_a_lost_answer_stays_ambiguous_for_writes() {
    let steps = vec![Step::NoAnswer(Delivery::Unknown), Step::refusal(404, 0)];
    let (result, _) = play(create().repeat(Repeat::Always), steps.clone()).await;
    let error = result.unwrap_err();
    assert!(error.is_not_found() && error.is_ambiguous(), "{error}");
    let (result, _) = play(read(), steps).await;
    assert!(!result.unwrap_err().is_ambiguous());
}

#[tokio::test(start_paused = true)]
async fn a_throttled_request_waits_as_requested_until_the_deadline() {
    let started = Instant::now();
    let throttled = || Step::refusal(429, 3200).header("x-ms-retry-after-ms", "750");
    let (result, _) = play(create(), vec![throttled(), throttled(), Step::status(201)]).await;
    result.unwrap();
    assert_eq!(started.elapsed().as_millis(), 2 * 755);

    let script = Script::new((0..100).map(|_| throttled()));
    let error = pipeline(&script).send(&create(), None).await.unwrap_err();
    assert!(error.is_throttled() && !error.is_ambiguous(), "{error}");
    assert_eq!(error.retry_after(), Some(Duration::from_millis(750)));
    assert!(error.call().unwrap().elapsed <= RetryConfig::default().deadline);
    assert_eq!(error.call().unwrap().attempts, 39);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_hangs_times_out() {
    let started = Instant::now();
    let (result, _) = play(read(), vec![Step::Hang, Step::status(200)]).await;
    result.unwrap();
    let limit = RetryConfig::default().attempt_timeout;
    assert_eq!(started.elapsed(), limit + Duration::from_millis(10));

    let (result, _) = play(create(), vec![Step::Hang]).await;
    let error = result.unwrap_err();
    assert!(error.is_ambiguous());
    assert!(
        error.to_string().contains("no answer within 10000 ms"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn every_attempt_has_a_new_signature_and_a_refused_key_switches_to_the_other() {
    let steps = vec![
        Step::refusal(503, 0).header("date", "Wed, 21 Oct 2015 07:28:00 GMT"),
        Step::refusal(401, 0),
        Step::status(200),
    ];
    let (result, script) = play(read(), steps).await;
    result.unwrap();
    let signed = script.sent_header("authorization");
    assert_eq!(signed.len(), 3);
    // The second is signed at the service's date, the third with the secondary key.
    assert!(signed[0] != signed[1] && signed[1] != signed[2]);
    // The version of the vendor's clients (.NET, `CosmosClient.cs`; Rust driver, `COSMOS_API_VERSION`).
    let versions = script.sent_header("x-ms-version");
    assert!(
        versions
            .iter()
            .all(|version| version.as_deref() == Some("2020-07-15"))
    );
    let dates = script.sent_header("x-ms-date");
    assert!(
        dates[1]
            .as_deref()
            .unwrap()
            .starts_with("Wed, 21 Oct 2015 07:28:0"),
        "{dates:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_date_is_replaced_by_the_date_of_the_answer() {
    let date = "Wed, 21 Oct 2015 07:28:00 GMT";
    let steps = vec![
        Step::refusal(403, 0).header("date", date),
        Step::status(200),
    ];
    let (result, script) = play(create(), steps).await;
    result.unwrap();
    let dates = script.sent_header("x-ms-date");
    let second = dates[1].as_deref().unwrap();
    assert!(second.starts_with("Wed, 21 Oct 2015 07:28:0"), "{second}");
}

#[tokio::test(start_paused = true)]
async fn a_403_is_retried_with_the_same_key() {
    // The clock stands still, so only another key would make another signature.
    let (result, script) = play(read(), vec![Step::refusal(403, 0); 2]).await;
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Forbidden);
    let signed = script.sent_header("authorization");
    let dates = script.sent_header("x-ms-date");
    assert_eq!(dates[0], dates[1]);
    assert_eq!(signed[0], signed[1]);
}

#[tokio::test(start_paused = true)]
async fn the_error_about_a_refused_key_does_not_contain_the_key() {
    let (result, _) = play(read(), vec![Step::refusal(401, 0); 3]).await;
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized);
    let shown = format!("{error} {error:?}");
    assert!(
        !shown.contains(PRIMARY) && !shown.contains("sig"),
        "{shown}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lagging_replica_is_not_a_missing_item() {
    let (result, _) = play(read(), vec![Step::refusal(404, 1002), Step::status(200)]).await;
    result.unwrap();
    let (result, _) = play(read(), vec![Step::refusal(404, 0)]).await;
    assert!(result.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn session_tokens_come_from_writes_and_refusals_and_are_sent_with_reads_only() {
    let script = Script::new([
        Step::status(201).header("x-ms-session-token", "0:-1#5"),
        Step::refusal(412, 0).header("x-ms-session-token", "0:-1#9"),
        Step::refusal(404, 1002).header("x-ms-session-token", "0:-1#99"),
        Step::status(200),
    ]);
    let pipeline = pipeline(&script);
    let sessions = SessionTokens::default();
    let observers = Some(observing(&sessions));
    pipeline.send(&create(), observers).await.unwrap();
    pipeline.send(&create(), observers).await.unwrap_err();
    pipeline.send(&read(), observers).await.unwrap();
    let sent = script.sent_header("x-ms-session-token");
    let token = Some("0:-1#9".to_owned());
    assert_eq!(sent, [None, None, token.clone(), token]);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_no_replica_satisfies_is_forgotten_at_the_deadline() {
    let script = Script::new([Step::status(201).header("x-ms-session-token", "0:-1#5")]);
    script.extend((0..40).map(|_| Step::refusal(404, 1002)));
    let pipeline = pipeline(&script);
    let sessions = SessionTokens::default();
    let observers = Some(observing(&sessions));
    pipeline.send(&create(), observers).await.unwrap();
    let error = pipeline.send(&read(), observers).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(sessions.header(&SessionScope::Container), None);
}

#[tokio::test(start_paused = true)]
async fn attempts_and_charges_add_up_in_errors_and_usage() {
    let script = Script::new([
        Step::refusal(449, 0).header("x-ms-request-charge", "1.5"),
        Step::refusal(412, 0)
            .header("x-ms-request-charge", "2.25")
            .header("x-ms-activity-id", "act-7"),
    ]);
    let pipeline = pipeline(&script);
    let error = pipeline.send(&create(), None).await.unwrap_err();
    let call = error.call().unwrap();
    assert_eq!((call.attempts, call.charge), (2, 3.75));
    assert_eq!(
        error.to_string(),
        "create item: refused for a test (status 412); `dbs/db/colls/c`, 2 attempts in 10 ms, activity act-7"
    );
    let used = pipeline.meter.snapshot().of(RequestKind::Create);
    assert_eq!((used.requests, used.failures, used.bytes_sent), (2, 2, 4));
}

#[tokio::test(start_paused = true)]
async fn an_untrusted_server_fails_at_once() {
    let started = Instant::now();
    for request in [read(), create()] {
        let (result, script) = play(request, vec![Step::NoAnswer(Delivery::Untrusted)]).await;
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Untrusted);
        assert!(!error.is_ambiguous() && !error.is_transient(), "{error}");
        assert_eq!(script.requests().len(), 1);
    }
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_too_long_is_not_retried_and_makes_a_write_ambiguous() {
    for (request, ambiguous) in [(read(), false), (create(), true)] {
        let (result, script) = play(request, vec![Step::NoAnswer(Delivery::TooLong)]).await;
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol);
        assert_eq!(error.is_ambiguous(), ambiguous);
        assert_eq!(script.requests().len(), 1);
    }
}

#[derive(Debug)]
struct SilentCredential;

#[async_trait::async_trait]
impl Credential for SilentCredential {
    async fn authorize(&self, _: &SigningContext<'_>) -> Result<Authorization, Error> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_credential_that_never_answers_fails_at_the_deadline_of_the_call() {
    let script = Script::default();
    let pipeline = Pipeline::new(PipelineParts {
        credential: Arc::new(SilentCredential),
        ..parts(&script)
    });
    let started = Instant::now();
    let error = pipeline.send(&read(), None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.call().is_none(), "nothing was sent");
    assert_eq!(started.elapsed(), RetryConfig::default().deadline);
    assert!(script.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_last_attempt_of_a_create_has_time_to_be_answered() {
    let late = Step::refusal(429, 3200).header("x-ms-retry-after-ms", "29500");
    let script = Script::new([late, Step::Hang]);
    let patient =
        RetryConfig::default().with_delays(Duration::from_millis(10), Duration::from_secs(60));
    let pipeline = Pipeline::new(PipelineParts {
        retry: patient,
        ..parts(&script)
    });
    let error = pipeline.send(&create(), None).await.unwrap_err();
    assert!(error.is_throttled() && !error.is_ambiguous(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_requested_delay_of_zero_is_no_request() {
    let throttled = || Step::refusal(429, 3200).header("x-ms-retry-after-ms", "0");
    let script = Script::new((0..1000).map(|_| throttled()));
    pipeline(&script).send(&create(), None).await.unwrap_err();
    let sent = script.requests().len();
    assert!(sent < 50, "{sent} requests in 30 s");
}
