//! Messages that another program has damaged, and messages that cannot run now: they do not hide
//! other messages.

use std::time::Duration;

use cdb_client::transport::SimulatedTime;
use cdb_client::{Bootstrap, ContainerClient};
use cdb_coordination::message::Side;
use cdb_coordination::messaging::{DeadLetter, MessagingConfig};
use cdb_coordination::outbox::OutboxError;
use cdb_coordination::{Message, MessageDocument, Messaging, OutboxBatch, Received};
use cdb_model::{Container, Document, Patch, Query, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::backend::Backend;
use crate::messaging::house::place_of;
use crate::stored_message::{StoredMessage, StoredMessageKey};

/// A received note.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "noted", id = "noted:{text}")]
struct Noted {
    #[document(partition_key)]
    place: String,
    text: String,
}

#[derive(Container)]
enum House {
    Noted(Noted),
    Message(MessageDocument<House>),
}

#[derive(Container)]
enum Spoiler {
    Message(StoredMessage),
}

#[derive(Serialize, Deserialize)]
struct Note(String);

impl Message for Note {
    const TYPE: &'static str = "note";
}

struct TestEnv {
    house: ContainerClient<House>,
    spoiler: ContainerClient<Spoiler>,
    _backend: Backend,
}

impl TestEnv {
    async fn new() -> Self {
        let backend = Backend::start(2, Some(SimulatedTime::new())).await;
        let database = backend.database();
        let house = database.bootstrap("house", Bootstrap::CreateIfMissing);
        Self {
            house: house.await.expect("a container"),
            spoiler: database.container("house"),
            _backend: backend,
        }
    }

    fn messaging(&self) -> Messaging<House> {
        let config = MessagingConfig::default()
            .with_claims(Duration::from_millis(100), Duration::from_millis(300))
            .with_poll_interval(Duration::from_millis(50));
        self.messaging_with(config)
    }

    fn messaging_with(&self, config: MessagingConfig) -> Messaging<House> {
        let messaging = Messaging::builder(self.house.clone()).config(config);
        let messaging = messaging.on(
            |note: Received<Note>, mut batch: OutboxBatch<House>| async move {
                let place = place_of(&batch);
                let text = note.message.0;
                batch.add(Noted { place, text }.create())?;
                Ok(batch)
            },
        );
        messaging.start().expect("the durations fit")
    }

    /// Waits until a partition has received all of these notes.
    async fn until_noted(&self, place: &str, texts: &[&str]) {
        for _ in 0..500 {
            let query = Query::<Noted>::in_partition(place);
            let found = self.house.query(query).all().await.expect("notes");
            let noted = |text: &&&str| found.iter().any(|row| row.document.text == **text);
            if texts.iter().filter(noted).count() == texts.len() {
                assert_eq!(found.len(), texts.len());
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("not all of {texts:?} were received");
    }

    async fn write(&self, mail: StoredMessage) {
        self.spoiler.run(mail.create()).await.expect("it is new");
    }

    /// A message of stream `s` that has arrived at Bob.
    fn arrived(slot: &str, mail: Value) -> StoredMessage {
        StoredMessage {
            place: "bob".to_owned(),
            kind: "in".to_owned(),
            slot: slot.to_owned(),
            mail_in: Some(Timestamp::from_secs(1)),
            mail,
            ..StoredMessage::default()
        }
    }

    /// A message that Ann has sent.
    fn sent(slot: &str, mail: Value) -> StoredMessage {
        StoredMessage {
            place: "ann".to_owned(),
            kind: "out".to_owned(),
            mail_out: Some(Timestamp::from_secs(1)),
            mail_in: None,
            ..Self::arrived(slot, mail)
        }
    }

    fn letter(&self, stream: &str, number: u64, to: &str, text: &str) -> Value {
        json!({
            "stream": stream,
            "number": number,
            "from": {"container": "house", "partition": ["ann"]},
            "to": {"container": "house", "partition": [to]},
            "messageType": "note",
            "payload": format!("{text:?}"),
            "sentAt": self.house.now(),
        })
    }

    /// An envelope whose number is not a number.
    fn torn(&self, stream: &str, to: &str, text: &str) -> Value {
        let mut letter = self.letter(stream, 1, to, text);
        letter["number"] = "torn".into();
        letter
    }
}

async fn send(messaging: &Messaging<House>, from: &str, to: &str, text: &str) {
    let mut batch = messaging.batch(from);
    batch.send(to, &Note(text.to_owned())).expect("JSON");
    messaging.commit(batch).await.expect("it is committed");
}

/// Waits until there are `count` dead letters.
async fn until_dead(messaging: &Messaging<House>, count: usize) -> Vec<DeadLetter> {
    for _ in 0..500 {
        let found = messaging
            .dead_letters()
            .list(Timestamp::default(), 100)
            .await;
        let found = found.expect("they are listed");
        if found.len() == count {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("there are fewer than {count} dead letters");
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_message_becomes_a_dead_letter_and_other_messages_are_received() {
    let env = TestEnv::new().await;
    let (incoming, outgoing) = (
        json!({"kind": "incoming", "letter": env.torn("s", "bob", "lost")}),
        json!({"kind": "outgoing", "letter": env.torn("t", "zoe", "lost")}),
    );
    for mail in [
        TestEnv::arrived("s-1", incoming),
        TestEnv::arrived("telegram", json!({"kind": "telegram", "text": "stop"})),
        TestEnv::sent("t-1", outgoing),
        TestEnv::sent("nowhere-1", json!("nothing")),
    ] {
        env.write(mail).await;
    }
    // The next messages of both streams can be read.
    let second = env.letter("s", 2, "bob", "second of s");
    let second = json!({"kind": "incoming", "letter": second, "started": 0});
    env.write(TestEnv::arrived("s-2", second)).await;
    let second = env.letter("t", 2, "zoe", "second of t");
    let second = json!({"kind": "outgoing", "letter": second});
    env.write(TestEnv::sent("t-2", second)).await;

    let messaging = env.messaging();
    send(&messaging, "ann", "bob", "from ann").await;
    env.until_noted("bob", &["from ann", "second of s"]).await;
    env.until_noted("zoe", &["second of t"]).await;
    let dead = until_dead(&messaging, 4).await;
    for letter in &dead {
        assert!(letter.is_unreadable);
        assert!(letter.reason.contains("cannot be read"), "{letter:?}");
        let whole: Value = serde_json::from_str(&letter.payload).expect("the whole document");
        assert_eq!(whole["type"], "mail");
    }
    let of_side = |side| dead.iter().filter(|letter| letter.side == side).count();
    assert_eq!((of_side(Side::Inbox), of_side(Side::Outbox)), (2, 2));
    let torn = dead.iter().find(|letter| letter.message_type == "note");
    let torn = torn.expect("its type could be read");
    assert!(torn.reason.contains("torn"), "{}", torn.reason);
    messaging.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_dead_letter_is_redriven_after_its_repair() {
    let env = TestEnv::new().await;
    let torn =
        json!({"kind": "incoming", "letter": env.torn("s", "bob", "repaired"), "started": 0});
    env.write(TestEnv::arrived("s-1", torn)).await;
    let messaging = env.messaging();
    let dead = until_dead(&messaging, 1).await.remove(0);
    let letters = messaging.dead_letters();
    let refused = letters.redrive(&dead).await;
    assert!(
        matches!(refused, Err(OutboxError::Unreadable { .. })),
        "{refused:?}"
    );
    assert_eq!(letters.count().await.expect("a count"), 1);

    // Repairs the document inside the dead letter.
    let key = StoredMessageKey::new("dead", &*dead.name);
    let found = env.spoiler.read(key.in_partition("bob")).await;
    let mut mail = found.expect("it is read").expect("it exists").document.mail;
    let payload = dead.payload.replace("\"torn\"", "1");
    mail["letter"]["payload"] = payload.into();
    let repaired = Patch::<StoredMessage>::new().set(StoredMessage::MAIL, mail);
    ok!(env.spoiler.run(repaired.at(key.in_partition("bob"))));
    letters.redrive(&dead).await.expect("it can be read now");
    env.until_noted("bob", &["repaired"]).await;
    assert_eq!(letters.count().await.expect("a count"), 0);
    messaging.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_dead_letter_is_listed_beside_the_others_and_can_be_discarded() {
    let env = TestEnv::new().await;
    let messaging = env.messaging();
    for (slot, number) in [("in-s-1", json!("torn")), ("in-s-2", json!(2))] {
        let mut letter = env.letter("s", 2, "bob", "lost");
        letter["number"] = number;
        let mail = json!({"kind": "dead", "side": "inbox", "letter": letter, "reason": "a test"});
        let dead = StoredMessage {
            kind: "dead".to_owned(),
            mail_in: None,
            mail_dead: Some(Timestamp::from_secs(7)),
            ..TestEnv::arrived(slot, mail)
        };
        env.write(dead).await;
    }
    let letters = messaging.dead_letters();
    let page = letters.page(10, None).await.expect("a page").rows;
    let listed: Vec<_> = page
        .iter()
        .map(|letter| (&*letter.name, letter.is_unreadable))
        .collect();
    assert_eq!(listed, [("in-s-1", true), ("in-s-2", false)]);
    assert_eq!(until_dead(&messaging, 2).await[0].name, "in-s-1");
    let torn = letters.get(&"bob".into(), "in-s-1").await;
    let torn = torn.expect("it is found").expect("it exists");
    assert!(torn.reason.contains("torn"), "{}", torn.reason);
    assert_eq!((&*torn.message_type, torn.side), ("note", Side::Inbox));
    assert_eq!(torn.dead_lettered_at, Timestamp::from_secs(7));
    let redriven = letters.redrive(&torn).await;
    assert!(
        matches!(redriven, Err(OutboxError::Unreadable { .. })),
        "{redriven:?}"
    );
    letters.discard(&torn).await.expect("it is deleted");
    let again = letters.discard(&torn).await;
    assert!(matches!(again, Err(OutboxError::Gone)), "{again:?}");
    assert_eq!(letters.count().await.expect("a count"), 1);
    messaging.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_record_blocks_its_stream_alone() {
    let env = TestEnv::new().await;
    let messaging = env.messaging();
    send(&messaging, "ann", "bob", "first").await;
    env.until_noted("bob", &["first"]).await;
    let query = Query::<StoredMessage>::in_partition("bob");
    let records = env.spoiler.query(query).all().await.expect("records");
    let record = records
        .iter()
        .find(|row| row.id.as_str().starts_with("seen:"));
    let slot = &*record.expect("the record of Ann's stream").document.slot;
    let key = StoredMessageKey::new("seen", slot);
    let torn = Patch::<StoredMessage>::new().set(StoredMessage::MAIL, Value::from("torn"));
    let patched = env.spoiler.run(torn.at(key.in_partition("bob"))).await;
    patched.expect("it is damaged");

    send(&messaging, "ann", "bob", "second").await;
    send(&messaging, "cat", "bob", "from cat").await;
    env.until_noted("bob", &["first", "from cat"]).await;
    // The repaired stream goes on.
    let whole = &record.expect("it was read").document.mail;
    let repaired = Patch::<StoredMessage>::new().set(StoredMessage::MAIL, whole.clone());
    ok!(env.spoiler.run(repaired.at(key.in_partition("bob"))));
    env.until_noted("bob", &["first", "from cat", "second"])
        .await;
    messaging.stop().await;
}

/// Writes a thousand messages that cannot run now, sent before `until_noted` finds the last one.
/// Returns after how long it was received.
async fn found_behind(blocked: impl Fn(&TestEnv, u32) -> StoredMessage) -> Duration {
    let env = TestEnv::new().await;
    for number in 0..1_000 {
        env.write(blocked(&env, number)).await;
    }
    // Another process commits, and dies before it delivers.
    let letter = env.letter("last", 1, "zoe", "last");
    let mut last = TestEnv::sent("last-1", json!({"kind": "outgoing", "letter": letter}));
    last.mail_out = Some(env.house.now());
    env.write(last).await;
    let begun = tokio::time::Instant::now();
    let messaging = env.messaging_with(MessagingConfig::default());
    env.until_noted("zoe", &["last"]).await;
    let found = begun.elapsed();
    messaging.stop().await;
    found
}

#[tokio::test(start_paused = true)]
async fn a_message_behind_a_thousand_that_cannot_be_delivered_is_delivered() {
    let found = found_behind(|env, number| {
        let stream = format!("s{number}");
        let mut letter = env.letter(&stream, 1, "bob", "blocked");
        letter["to"]["container"] = "nowhere".into();
        let mail = json!({"kind": "outgoing", "letter": letter});
        TestEnv::sent(&format!("{stream}-1"), mail)
    })
    .await;
    assert!(found <= Duration::from_secs(2), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn a_message_behind_a_thousand_unreadable_ones_is_delivered() {
    let found =
        found_behind(|_, number| TestEnv::sent(&format!("s{number}-1"), json!({"kind": "torn"})))
            .await;
    assert!(found <= Duration::from_secs(2), "{found:?}");
}

/// An early message, whose stream waits for the message before it.
fn early(env: &TestEnv, place: &str, number: u32) -> StoredMessage {
    let stream = format!("s{number}");
    let letter = env.letter(&stream, 2, place, "early");
    let mail = json!({"kind": "incoming", "letter": letter, "started": 0});
    StoredMessage {
        place: place.to_owned(),
        ..TestEnv::arrived(&format!("{stream}-2"), mail)
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_behind_a_thousand_early_ones_is_received() {
    let found = found_behind(|env, number| early(env, "zoe", number)).await;
    assert!(
        found <= Duration::from_secs(2),
        "{found:?} in its partition"
    );
    let found = found_behind(|env, number| early(env, &format!("zoe-{number}"), number)).await;
    assert!(found <= Duration::from_secs(2), "{found:?} in others");
}

#[tokio::test(start_paused = true)]
async fn an_arrived_message_behind_a_thousand_blocked_partitions_is_received() {
    let env = TestEnv::new().await;
    for number in 0..1_000 {
        env.write(early(&env, &format!("bob-{number}"), number))
            .await;
    }
    let letter = env.letter("last", 1, "zoe", "last");
    let mail = json!({"kind": "incoming", "letter": letter, "started": 0});
    let last = StoredMessage {
        place: "zoe".to_owned(),
        mail_in: Some(env.house.now()),
        ..TestEnv::arrived("last-1", mail)
    };
    env.write(last).await;
    let begun = tokio::time::Instant::now();
    let messaging = env.messaging_with(MessagingConfig::default());
    env.until_noted("zoe", &["last"]).await;
    let found = begun.elapsed();
    assert!(found <= Duration::from_secs(2), "{found:?}");
    messaging.stop().await;
}
