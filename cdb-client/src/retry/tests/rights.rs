//! Rights and tokens that flap for seconds: retried if the service accepted such a request before,
//! refused at once otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::pipeline::{create, parts, pipeline, read};
use crate::credential::{Authorization, Credential, SigningContext};
use crate::error::{Error, ErrorKind};
use crate::retry::{Pipeline, PipelineParts, RetryConfig};
use crate::transport::{Script, Step};

/// The refusals of a working identity while its rights or keys change.
const FLAPPING: [(u16, u32); 5] = [(401, 0), (403, 0), (403, 5300), (403, 5301), (403, 5302)];

#[tokio::test(start_paused = true)]
async fn rights_that_flap_for_seconds_delay_a_request() {
    for (code, sub) in FLAPPING {
        let script = Script::new([Step::status(201)]);
        script.extend((0..9).map(|_| Step::refusal(code, sub)));
        script.extend([Step::status(201)]);
        let pipeline = pipeline(&script);
        pipeline.send(&create(), None).await.unwrap();
        let started = Instant::now();
        pipeline.send(&create(), None).await.unwrap();
        let elapsed = started.elapsed();
        assert!(
            elapsed > Duration::from_secs(5),
            "{code}/{sub}: {elapsed:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn rights_that_do_not_return_fail_the_request_at_its_deadline() {
    for (code, sub) in FLAPPING {
        let script = Script::new([Step::status(200)]);
        script.extend((0..40).map(|_| Step::refusal(code, sub)));
        let pipeline = pipeline(&script);
        pipeline.send(&read(), None).await.unwrap();
        let error = pipeline.send(&read(), None).await.unwrap_err();
        assert!(error.is_denied() && !error.is_transient(), "{error}");
        let elapsed = error.call().unwrap().elapsed;
        assert!(
            elapsed > Duration::from_secs(28),
            "{code}/{sub}: {elapsed:?}"
        );
        assert!(elapsed <= RetryConfig::default().deadline);
    }
}

#[tokio::test(start_paused = true)]
async fn an_identity_that_was_never_accepted_is_refused_at_once() {
    for ((code, sub), sends) in FLAPPING.into_iter().zip([3, 2, 1, 1, 1]) {
        let script = Script::new([Step::status(200)]);
        script.extend((0..sends).map(|_| Step::refusal(code, sub)));
        let pipeline = pipeline(&script);
        // A right to read says nothing about a right to write.
        pipeline.send(&read(), None).await.unwrap();
        let started = Instant::now();
        let error = pipeline.send(&create(), None).await.unwrap_err();
        assert!(error.is_denied(), "{error}");
        assert_eq!(started.elapsed(), Duration::ZERO, "{code}/{sub}");
        assert_eq!(script.steps_left(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_logical_partition_refuses_at_once_and_denies_no_identity() {
    let script = Script::new([Step::status(201), Step::refusal(403, 1014)]);
    let pipeline = pipeline(&script);
    pipeline.send(&create(), None).await.unwrap();
    let error = pipeline.send(&create(), None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden);
    assert!(!error.is_denied(), "{error}");
}

/// Has no token from its second request until its sixth.
#[derive(Debug, Default)]
struct TokensPause(AtomicU32);

#[async_trait::async_trait]
impl Credential for TokensPause {
    async fn authorize(&self, _: &SigningContext<'_>) -> Result<Authorization, Error> {
        match self.0.fetch_add(1, Ordering::Relaxed) {
            1..6 => Err(Error::unauthorized("no token for a test")),
            _ => Authorization::from_entra_token("token", 0),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_token_fetch_is_repeated_once_a_token_was_accepted() {
    let script = Script::new([Step::status(201), Step::status(201)]);
    let pipeline = Pipeline::new(PipelineParts {
        credential: Arc::new(TokensPause::default()),
        ..parts(&script)
    });
    pipeline.send(&create(), None).await.unwrap();
    let started = Instant::now();
    pipeline.send(&create(), None).await.unwrap();
    assert!(started.elapsed() > Duration::from_secs(3));

    let script = Script::default();
    let pipeline = Pipeline::new(PipelineParts {
        credential: Arc::new(TokensPause(AtomicU32::new(1))),
        ..parts(&script)
    });
    let error = pipeline.send(&create(), None).await.unwrap_err();
    assert!(error.is_denied(), "{error}");
}
