//! Messages for one of several handlers of their type.

mod backend;

use std::time::Duration;

use backend::Backend;
use cdb_client::{Bootstrap, ContainerClient, SimulatedTime};
use cdb_coordination::{Message, MessageDocument, Messaging, OutboxBatch, Received};
use cdb_model::{Container, Timestamp};
use serde::{Deserialize, Serialize};

#[derive(Container)]
#[container(partition_key = "/place")]
enum House {
    Message(MessageDocument<House>),
}

#[derive(Serialize, Deserialize)]
struct Note;

impl Message for Note {
    const TYPE: &'static str = "note";
}

#[tokio::test(start_paused = true)]
async fn a_message_is_received_by_the_handler_that_its_sender_has_named() {
    let backend = Backend::start(1, Some(SimulatedTime::new())).await;
    let database = backend.database();
    let house = database.bootstrap("house", Bootstrap::CreateIfMissing);
    let house: ContainerClient<House> = house.await.expect("a container");
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
    let messaging = Messaging::builder(house)
        .on(handler("unnamed"))
        .on_handler("ledger", handler("ledger"))
        .on_handler("mailer", handler("mailer"))
        .start();
    let mut batch = messaging.batch("ann");
    for name in ["ledger", "mailer", "absent"] {
        let sent = batch.send_for(name, "bob", &Note);
        sent.expect("a small message");
    }
    batch.send("bob", &Note).expect("a small message");
    messaging.commit(batch).await.expect("a commit");
    for expected in [Some("ledger"), Some("mailer"), None] {
        let (registered, chosen) = calls.recv().await.expect("a message");
        assert_eq!(registered, expected.unwrap_or("unnamed"));
        assert_eq!(chosen.as_deref(), expected);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let dead = messaging.dead_letters();
    let letters = dead.list(Timestamp::default(), 10).await;
    let letters = letters.expect("a list");
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
