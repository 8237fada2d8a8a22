//! Refused commits and deliveries: lost races, unique keys, and durations that do not fit.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cdb_client::Bootstrap;
use cdb_client::transport::{
    Delivery, HttpRequest, HttpResponse, SimulatedTime, Transport, TransportError,
};
use cdb_coordination::message::Side;
use cdb_coordination::messaging::MessagingConfig;
use cdb_coordination::outbox::OutboxError;
use cdb_coordination::retry::{Jitter, RetryPolicy};
use cdb_coordination::{
    DeadLetters, HandlerError, MessageDocument, Messaging, OutboxBatch, Received,
};
use cdb_emulator::{Effect, Fault, OperationKind, UniqueKeyAnswer};
use cdb_model::{Container, Document, Query, Timestamp};
use serde::{Deserialize, Serialize};

use crate::messaging::house::{House, Note, TestEnv, send};

/// A container whose unique key the model of its messages does not know.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "guest", id = "guest:{badge}", unique(badge))]
struct Guest {
    #[document(partition_key)]
    place: String,
    badge: u32,
}

#[derive(Container)]
enum Guests {
    Guest(Guest),
}

#[derive(Container)]
#[container(partition_key = "/place")]
enum Annex {
    Message(MessageDocument<Annex>),
}

#[tokio::test(start_paused = true)]
async fn a_message_refused_because_of_a_unique_key_becomes_a_dead_letter() {
    for form in [
        UniqueKeyAnswer::SubStatus,
        UniqueKeyAnswer::Text,
        UniqueKeyAnswer::AsTakenId,
    ] {
        refuse_one_of_two_messages(form).await;
    }
}

/// Answers violated unique keys in this form, if the service is an emulator.
async fn refuse_one_of_two_messages(form: UniqueKeyAnswer) {
    let env = TestEnv::start(1).await;
    if let Some(emulator) = &env.backend.emulator {
        let changed = emulator.change(|settings| settings.unique_key_answer(form));
        changed.expect("a valid setting");
    }
    let database = env.backend.database();
    let guests = database.bootstrap::<Guests>("annex", Bootstrap::CreateIfMissing);
    guests.await.expect("another container");
    let annex = database.container::<Annex>("annex");
    let retry = RetryPolicy::default().with_max_attempts(4);
    let messaging = Messaging::builder(env.house.clone())
        .route(annex.clone())
        .config(MessagingConfig::default().with_retry(retry))
        .start()
        .expect("the durations fit");
    let mut batch = messaging.batch("ann");
    for number in [1, 2] {
        let sent = batch.send_to("annex", "bob", &Note(number));
        sent.expect("a note is JSON");
    }
    messaging.commit(batch).await.expect("a commit");
    // Longer than all attempts.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let query = Query::<MessageDocument<Annex>>::across_partitions();
    let delivered = annex.query(query).all().await.expect("a query").len();
    let dead = messaging.dead_letters();
    let dead = dead.list(Timestamp::default(), 10).await.expect("a list");
    assert_eq!((delivered, dead.len()), (1, 1), "of two messages: {form:?}");
    assert_eq!((dead[0].side, dead[0].attempts), (Side::Outbox, 4));
    assert!(dead[0].reason.contains("unique key"), "{}", dead[0].reason);
    messaging.stop().await;
}

#[tokio::test(start_paused = true)]
async fn commits_that_lose_a_race_wait_until_all_have_succeeded() {
    let env = TestEnv::start(1).await;
    let drawn = Mutex::new(0_f64);
    let jitter = Jitter::from_source(move || {
        let mut drawn = drawn.lock().expect("no holder panics");
        *drawn = (*drawn + 0.618).fract();
        *drawn
    });
    let messaging = Messaging::builder(env.house.clone())
        .jitter(jitter)
        .start()
        .expect("the durations fit");
    let commits = (0..24).map(|number| {
        let mut batch = messaging.batch("ann");
        batch.send("zoe", &Note(number)).expect("a note is JSON");
        messaging.commit(batch)
    });
    let begun = tokio::time::Instant::now();
    let commits = futures::future::join_all(commits).await;
    let failed = commits.iter().filter(|commit| commit.is_err()).count();
    assert_eq!(failed, 0, "of 24 commits to one stream");
    assert!(begun.elapsed() < Duration::from_secs(3));
    messaging.stop().await;
}

#[tokio::test(start_paused = true)]
async fn durations_that_do_not_fit_are_refused_with_both_values() {
    let env = TestEnv::start(1).await;
    let secs = Duration::from_secs;
    let retry = |first, longest| RetryPolicy::default().with_delays(secs(first), secs(longest));
    let default = MessagingConfig::default();
    for (config, text) in [
        (
            default.with_claims(secs(60), secs(1)),
            "`reserved` is 60s, longer than `claim`, which is 1s",
        ),
        (
            default.with_retry(retry(60, 1)),
            "`retry.first_delay` is 60s, longer than `retry.longest_delay`, which is 1s",
        ),
        (
            default.with_retention(secs(1)),
            "`claim` is 30s, longer than `retention`, which is 1s",
        ),
        (
            default.with_poll_interval(secs(604_801)),
            "`poll_interval` is 604801s, longer than `retention`, which is 604800s",
        ),
    ] {
        let refused = Messaging::builder(env.house.clone()).config(config).start();
        let error = refused.expect_err("the durations do not fit").to_string();
        assert!(error.starts_with(text), "{error}");
    }
}

/// Returns the handle to the dead letter of a note that a handler has refused.
async fn refused_note(env: &TestEnv) -> DeadLetters<House> {
    let refuse = |_: Received<Note>, _: OutboxBatch<House>| async {
        Err::<OutboxBatch<House>, _>(HandlerError::permanently("no"))
    };
    let messaging = env.messaging().on(refuse).start();
    let messaging = messaging.expect("the durations fit");
    send(&messaging, &["bob"], 1..2).await;
    let letters = messaging.dead_letters();
    while letters.count().await.expect("a query") == 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    messaging.stop().await;
    letters
}

/// Loses the first batch, and says so after four seconds.
#[derive(Debug)]
struct LosesBatch {
    network: SimulatedTime,
    has_lost: AtomicBool,
}

#[async_trait]
impl Transport for LosesBatch {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let is_batch = request.headers.contains_key("x-ms-cosmos-is-batch-request");
        if is_batch && !self.has_lost.fetch_or(true, Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_secs(4)).await;
            return Err(TransportError {
                delivery: Delivery::Unknown,
                message: "lost".to_owned(),
                source: None,
            });
        }
        self.network.send(request).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_is_discarded_while_an_answer_is_lost_is_not_reported_as_redriven() {
    let env = TestEnv::start(1).await;
    let time = or_skip!(env.backend.time.clone());
    let letters = refused_note(&env).await;
    let letter = ok!(letters.list(Timestamp::default(), 10)).remove(0);
    let client = env.backend.builder().transport(LosesBatch {
        network: time,
        has_lost: AtomicBool::new(false),
    });
    let client = client.build().expect("an endpoint");
    let house = client.database(&env.backend.database).container("house");
    let operator = DeadLetters::<House>::new(house, MessagingConfig::default());
    let (redriven, ()) = tokio::join!(operator.redrive(&letter), async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        letters
            .discard(&letter)
            .await
            .expect("nothing of it is lost");
    });
    let is_undecided = matches!(redriven, Err(OutboxError::Undecided));
    assert!(is_undecided, "{redriven:?}");
}

/// A proxy may answer 503 after the deletion. The client then sends it again, and gets a 404.
#[tokio::test(start_paused = true)]
async fn a_discard_with_a_lost_answer_is_not_reported_as_that_of_another() {
    for effect in [
        Effect::DropAnswer,
        Effect::StatusAfterEffect { status: 503 },
    ] {
        let env = TestEnv::start(1).await;
        let emulator = or_skip!(&env.backend.emulator);
        let letters = refused_note(&env).await;
        let letter = ok!(letters.list(Timestamp::default(), 10)).remove(0);
        emulator.inject(Fault::once(effect.clone()).on(OperationKind::Delete));
        let discarded = letters.discard(&letter).await;
        let is_undecided = matches!(discarded, Err(OutboxError::Undecided));
        assert!(is_undecided, "{effect:?}: {discarded:?}");
        assert_eq!(letters.count().await.expect("a query"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_redrive_with_a_lost_answer_is_recognised_by_its_message() {
    for effect in [Effect::DropAnswer, Effect::DropRequest] {
        let env = TestEnv::start(1).await;
        let emulator = or_skip!(&env.backend.emulator);
        let letters = refused_note(&env).await;
        let letter = ok!(letters.list(Timestamp::default(), 10)).remove(0);
        emulator.inject(Fault::once(effect).on(OperationKind::Batch));
        letters.redrive(&letter).await.expect("it is redriven");
        assert_eq!(letters.count().await.expect("a query"), 0);
    }
}
