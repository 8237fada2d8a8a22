//! Messages for one of several handlers of their type.

use std::time::Duration;

use cdb_coordination::{Messaging, OutboxBatch, Received};
use cdb_model::Timestamp;

use crate::messaging::house::{House, Note, TestEnv};

#[tokio::test(start_paused = true)]
async fn a_message_is_received_by_the_handler_that_its_sender_has_named() {
    let env = TestEnv::start(1).await;
    let (received, mut calls) = tokio::sync::mpsc::unbounded_channel();
    let handler = |registered: &'static str| {
        let received = received.clone();
        move |note: Received<Note>, batch: OutboxBatch<House>| {
            let chosen = note.handler().map(str::to_owned);
            let sent = received.send((registered, chosen));
            sent.expect("the test goes on");
            async move { Ok(batch) }
        }
    };
    let messaging = Messaging::builder(env.house.clone())
        .on(handler("unnamed"))
        .on_handler("ledger", handler("ledger"))
        .on_handler("mailer", handler("mailer"))
        .start()
        .expect("the durations fit");
    let mut batch = messaging.batch("ann");
    for name in ["ledger", "mailer", "absent"] {
        let sent = batch.send_for(name, "bob", &Note(1));
        sent.expect("a small message");
    }
    batch.send("bob", &Note(1)).expect("a small message");
    messaging.commit(batch).await.expect("a commit");
    for expected in [Some("ledger"), Some("mailer"), None] {
        let (registered, chosen) = calls.recv().await.expect("a message");
        assert_eq!(registered, expected.unwrap_or("unnamed"));
        assert_eq!(chosen.as_deref(), expected);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let dead = messaging.dead_letters();
    let letters = ok!(dead.list(Timestamp::default(), 10));
    let [letter] = &letters[..] else {
        panic!("{letters:?}");
    };
    assert!(
        letter.reason.contains("handler `absent`"),
        "{}",
        letter.reason
    );
    messaging.stop().await;
}
