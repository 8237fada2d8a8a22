//! Published messages, and handlers that get their document.

use std::time::Duration;

use cdb_coordination::message::DocumentMessage;
use cdb_coordination::outbox::Receiver;
use cdb_coordination::retry::RetryPolicy;
use cdb_coordination::{HandlerError, Message, Messaging, OutboxBatch, Received};
use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_model::{Document, Stored, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::unbounded_channel;

use crate::messaging::house::{House, Note, Noted, NotedKey, TestEnv, note_down};

async fn publish(messaging: &Messaging<House>, number: u32) -> usize {
    let mut batch = messaging.batch("ann");
    let receivers = batch.publish(&Note(number)).expect("a small message");
    messaging.commit(batch).await.expect("a commit");
    receivers
}

#[tokio::test(start_paused = true)]
async fn of_two_receivers_the_one_that_fails_gets_its_copy_again() {
    let env = TestEnv::start(2).await;
    let (received, mut calls) = unbounded_channel();
    let on_note = {
        let received = received.clone();
        move |note: Received<Note>, batch: OutboxBatch<House>| {
            let sent = received.send(("bob", note.attempt));
            sent.expect("the test goes on");
            async move { note_down(&note.message, batch) }
        }
    };
    let failing = move |note: Received<Note>, batch: OutboxBatch<House>| {
        let sent = received.send(("cid", note.attempt));
        sent.expect("the test goes on");
        async move {
            match note.attempt {
                1 => Err(HandlerError::temporarily("the ledger is busy")),
                _ => note_down(&note.message, batch),
            }
        }
    };
    let messaging = env.messaging();
    let messaging = messaging
        .on(on_note)
        .on_handler("ledger", failing)
        .receiver::<Note>(Receiver::new("bob"))
        .receiver::<Note>(Receiver::new("cid").handler("ledger"))
        .receiver::<Note>(Receiver::new("bob"))
        .start()
        .expect("the durations fit");
    assert_eq!(publish(&messaging, 7).await, 2);
    env.until_noted(|noted| noted.len() == 2).await;
    messaging.until_idle().await.expect("a query");
    let mut all = Vec::new();
    while let Ok(call) = calls.try_recv() {
        all.push(call);
    }
    all.sort_unstable();
    assert_eq!(all, [("bob", 1), ("cid", 1), ("cid", 2)]);
    let noted = env.noted().await;
    assert!(noted.contains(&("cid".to_owned(), 7)), "{noted:?}");
    assert_eq!(messaging.dead_letters().count().await.expect("a count"), 0);
    messaging.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_receiver_without_a_handler_gets_a_dead_letter_and_the_others_their_copies() {
    let env = TestEnv::start(1).await;
    let messaging = env.messaging();
    let messaging = messaging
        .on(async |note: Received<Note>, batch| note_down(&note.message, batch))
        .start()
        .expect("the durations fit");
    assert_eq!(publish(&messaging, 1).await, 0, "without receivers");
    messaging.stop().await;
    let messaging = env.messaging();
    let messaging = messaging
        .on(async |note: Received<Note>, batch| note_down(&note.message, batch))
        .receiver::<Note>(Receiver::new("bob").handler("absent"))
        .receiver::<Note>(Receiver::new("bob"))
        .start()
        .expect("the durations fit");
    assert_eq!(publish(&messaging, 2).await, 2);
    messaging.until_idle().await.expect("a query");
    assert_eq!(env.noted().await, [("bob".to_owned(), 2)].into());
    let letters = ok!(messaging.dead_letters().list(Timestamp::default(), 10));
    assert!(
        letters[0].reason.contains("handler `absent`"),
        "{letters:?}"
    );
    messaging.stop().await;
}

/// A note that is passed on.
#[derive(Serialize, Deserialize)]
struct Relayed(u32);

impl Message for Relayed {
    const TYPE: &'static str = "relayed";
}

#[tokio::test(start_paused = true)]
async fn a_handler_publishes_with_its_receipt() {
    let env = TestEnv::start(1).await;
    let relay = async |note: Received<Note>, mut batch: OutboxBatch<House>| {
        assert_eq!(batch.publish(&Relayed(note.message.0))?, 2);
        Ok(batch)
    };
    let messaging = env.messaging();
    let messaging = messaging
        .on(relay)
        .on(async |relayed: Received<Relayed>, batch| note_down(&Note(relayed.message.0), batch))
        .receiver::<Relayed>(Receiver::new("bob"))
        .receiver::<Relayed>(Receiver::new("cid"))
        .start()
        .expect("the durations fit");
    let mut batch = messaging.batch("ann");
    batch.send("hub", &Note(1)).expect("a small message");
    messaging.commit(batch).await.expect("a commit");
    messaging.until_idle().await.expect("a query");
    let at = |place: &str| (place.to_owned(), 1);
    assert_eq!(env.noted().await, [at("bob"), at("cid")].into());
    messaging.stop().await;
}

/// A correction of a note.
#[derive(Serialize, Deserialize)]
struct Correct(u32);

impl Message for Correct {
    const TYPE: &'static str = "correct";
}

impl DocumentMessage for Correct {
    type Document = Noted;

    fn document_key(&self) -> NotedKey {
        NotedKey::new("bob", self.0)
    }
}

async fn correct(
    noted: Stored<Noted>,
    _: Received<Correct>,
    mut batch: OutboxBatch<House>,
) -> cdb_coordination::messaging::Handled<House> {
    let corrected = Noted {
        number: noted.number + 100,
        ..noted.document.clone()
    };
    batch.add(noted.delete())?;
    batch.add(corrected.create())?;
    Ok(batch)
}

#[tokio::test(start_paused = true)]
async fn a_handler_gets_its_document_and_a_missing_one_is_a_failed_attempt() {
    let env = TestEnv::start(1).await;
    let messaging = env.messaging();
    let messaging = messaging.on_document(correct).start();
    let messaging = messaging.expect("the durations fit");
    let note = Noted {
        place: "bob".to_owned(),
        number: 1,
    };
    env.house.run(note.create()).await.expect("a document");
    let mut batch = messaging.batch("ann");
    batch.send("bob", &Correct(1)).expect("a small message");
    batch.send("bob", &Correct(2)).expect("a small message");
    messaging.commit(batch).await.expect("a commit");
    env.until_noted(|noted| noted.contains(&("bob".to_owned(), 101)))
        .await;
    // The second message waits for its document, which another message may create.
    let note = Noted { number: 2, ..note };
    env.house.run(note.create()).await.expect("a document");
    env.until_noted(|noted| noted.contains(&("bob".to_owned(), 102)))
        .await;
    assert_eq!(messaging.dead_letters().count().await.expect("a count"), 0);
    messaging.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_document_that_is_never_created_ends_in_a_dead_letter() {
    let env = TestEnv::start(1).await;
    let retry = RetryPolicy::default().with_max_attempts(2);
    let config = cdb_coordination::messaging::MessagingConfig::default().with_retry(retry);
    let messaging = env.messaging().config(config).on_document(correct).start();
    let messaging = messaging.expect("the durations fit");
    let mut batch = messaging.batch("ann");
    batch.send("bob", &Correct(1)).expect("a small message");
    messaging.commit(batch).await.expect("a commit");
    // The second attempt is due after more than the time that an idle process looks ahead.
    while messaging.dead_letters().count().await.expect("a count") == 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let letters = ok!(messaging.dead_letters().list(Timestamp::default(), 10));
    let reason = &letters[0].reason;
    assert!(reason.contains("`bob:noted:1` does not exist"), "{reason}");
    messaging.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_attempt_counts_while_the_document_cannot_be_read() {
    let env = TestEnv::start(1).await;
    let emulator = or_skip!(env.backend.emulator.as_ref());
    let retry = RetryPolicy::default().with_max_attempts(1);
    let config = cdb_coordination::messaging::MessagingConfig::default().with_retry(retry);
    let messaging = env.messaging().config(config).on_document(correct).start();
    let messaging = messaging.expect("the durations fit");
    let note = Noted {
        place: "bob".to_owned(),
        number: 1,
    };
    env.house.run(note.create()).await.expect("a document");
    let mut batch = messaging.batch("ann");
    batch.send("bob", &Correct(1)).expect("a small message");
    messaging.commit(batch).await.expect("a commit");
    // The record of the stream is read, then the document.
    let away = Fault::always(Effect::error(503, 0)).after(1);
    let away = away.lasting(Duration::from_secs(45));
    emulator.inject(away.on(OperationKind::Read));
    env.until_noted(|noted| noted.contains(&("bob".to_owned(), 101)))
        .await;
    assert_eq!(messaging.dead_letters().count().await.expect("a count"), 0);
    messaging.stop().await;
}
