//! Messages that another program has spoiled: told of, kept with the reason, and in nobody's way.

mod backend;

use std::time::Duration;

use backend::Backend;
use cdb_client::{Bootstrap, ContainerClient, SimulatedTime};
use cdb_coordination::{
    DeadLetter, Message, MessageDocument, Messaging, MessagingConfig, OutboxBatch, OutboxError,
    Received, Side,
};
use cdb_model::{Container, Document, PartitionKey, Patch, Query, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A note that was received.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "noted", id = "noted:{text}")]
struct Noted {
    #[document(partition_key)]
    place: String,
    text: String,
}

#[derive(Container)]
#[container(partition_key = "/place")]
enum House {
    Noted(Noted),
    Message(MessageDocument<House>),
}

/// A message document as a program writes it that knows it otherwise.
#[derive(Document, Serialize, Deserialize, Clone)]
#[serde(rename_all = "camelCase")]
#[document(type = "mail", id = "{kind}:mail:{slot}")]
struct RawMessage {
    #[document(partition_key)]
    place: String,
    #[serde(default)]
    kind: String,
    slot: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mail_out: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mail_in: Option<Timestamp>,
    mail: Value,
}

#[derive(Container)]
#[container(partition_key = "/place")]
enum Spoiler {
    Message(RawMessage),
}

#[derive(Serialize, Deserialize)]
struct Note(String);

impl Message for Note {
    const TYPE: &'static str = "note";
}

struct World {
    house: ContainerClient<House>,
    spoiler: ContainerClient<Spoiler>,
    _backend: Backend,
}

impl World {
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
        let messaging = Messaging::builder(self.house.clone()).config(config);
        let messaging = messaging.on(
            |note: Received<Note>, mut batch: OutboxBatch<House>| async move {
                let place = place_of(batch.partition());
                let text = note.message.0;
                batch.changes().create(&Noted { place, text })?;
                Ok(batch)
            },
        );
        messaging.start()
    }

    /// Waits until all of these have been received in a partition.
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
        panic!("{texts:?} were never all received");
    }

    async fn write(&self, mail: RawMessage) {
        self.spoiler.create(&mail).await.expect("it is new");
    }

    /// An arrived message of stream `s` to Bob.
    fn arrived(slot: &str, mail: Value) -> RawMessage {
        RawMessage {
            place: "bob".to_owned(),
            kind: "in".to_owned(),
            slot: slot.to_owned(),
            mail_out: None,
            mail_in: Some(Timestamp::from_secs(1)),
            mail,
        }
    }

    /// A message that Ann has sent.
    fn sent(slot: &str, mail: Value) -> RawMessage {
        RawMessage {
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

    /// The envelope with a number that is none.
    fn torn(&self, stream: &str, to: &str, text: &str) -> Value {
        let mut letter = self.letter(stream, 1, to, text);
        letter["number"] = "torn".into();
        letter
    }
}

fn place_of(partition: &PartitionKey) -> String {
    match partition.values() {
        [cdb_model::PartitionKeyValue::String(place)] => place.clone(),
        other => panic!("{other:?}"),
    }
}

async fn send(messaging: &Messaging<House>, from: &str, to: &str, text: &str) {
    let mut batch = messaging.batch(from);
    batch.send(to, &Note(text.to_owned())).expect("JSON");
    messaging.commit(batch).await.expect("it is committed");
}

/// Waits until there are so many dead letters.
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
    panic!("there were never {count} dead letters");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_kept_with_the_reason_and_all_else_goes_on() {
    let world = World::new().await;
    let (incoming, outgoing) = (
        json!({"kind": "incoming", "letter": world.torn("s", "bob", "lost")}),
        json!({"kind": "outgoing", "letter": world.torn("t", "zoe", "lost")}),
    );
    for mail in [
        World::arrived("s-1", incoming),
        World::arrived("telegram", json!({"kind": "telegram", "text": "stop"})),
        World::sent("t-1", outgoing),
        World::sent("nowhere-1", json!("nothing")),
    ] {
        world.write(mail).await;
    }
    // What follows in the same streams can be read.
    let second = world.letter("s", 2, "bob", "second of s");
    let second = json!({"kind": "incoming", "letter": second, "started": 0});
    world.write(World::arrived("s-2", second)).await;
    let second = world.letter("t", 2, "zoe", "second of t");
    let second = json!({"kind": "outgoing", "letter": second});
    world.write(World::sent("t-2", second)).await;

    let messaging = world.messaging();
    send(&messaging, "ann", "bob", "from ann").await;
    world.until_noted("bob", &["from ann", "second of s"]).await;
    world.until_noted("zoe", &["second of t"]).await;
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
async fn an_unreadable_dead_letter_is_redriven_once_it_can_be_read() {
    let world = World::new().await;
    let torn =
        json!({"kind": "incoming", "letter": world.torn("s", "bob", "mended"), "started": 0});
    world.write(World::arrived("s-1", torn)).await;
    let messaging = world.messaging();
    let dead = until_dead(&messaging, 1).await.remove(0);
    let letters = messaging.dead_letters();
    let refused = letters.redrive(&dead).await;
    assert!(
        matches!(refused, Err(OutboxError::Unreadable { .. })),
        "{refused:?}"
    );
    assert_eq!(letters.count().await.expect("a count"), 1);

    // Somebody mends the document within the dead letter.
    let key = RawMessageKey::new("dead", &*dead.name);
    let found = world.spoiler.read_in(&"bob".into(), &key).await;
    let mut mail = found
        .expect("it is read")
        .expect("it is there")
        .document
        .mail;
    let payload = dead.payload.replace("\"torn\"", "1");
    mail["letter"]["payload"] = payload.into();
    let mended = Patch::<RawMessage>::new().set(RawMessage::MAIL, mail);
    let patched = world.spoiler.patch_in(&"bob".into(), &key, &mended).await;
    patched.expect("it is mended");
    letters.redrive(&dead).await.expect("it can be read now");
    world.until_noted("bob", &["mended"]).await;
    assert_eq!(letters.count().await.expect("a count"), 0);
    messaging.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_read_holds_its_stream_alone() {
    let world = World::new().await;
    let messaging = world.messaging();
    send(&messaging, "ann", "bob", "first").await;
    world.until_noted("bob", &["first"]).await;
    let query = Query::<RawMessage>::in_partition("bob");
    let records = world.spoiler.query(query).all().await.expect("records");
    let record = records
        .iter()
        .find(|row| row.id.as_str().starts_with("seen:"));
    let slot = &*record.expect("the record of Ann's stream").document.slot;
    let key = RawMessageKey::new("seen", slot);
    let torn = Patch::<RawMessage>::new().set(RawMessage::MAIL, "torn".into());
    let patched = world.spoiler.patch_in(&"bob".into(), &key, &torn).await;
    patched.expect("it is spoiled");

    send(&messaging, "ann", "bob", "second").await;
    send(&messaging, "cat", "bob", "from cat").await;
    world.until_noted("bob", &["first", "from cat"]).await;
    // Mended, it goes on where it was.
    let whole = &record.expect("it was there").document.mail;
    let mended = Patch::<RawMessage>::new().set(RawMessage::MAIL, whole.clone());
    let patched = world.spoiler.patch_in(&"bob".into(), &key, &mended).await;
    patched.expect("it is mended");
    world
        .until_noted("bob", &["first", "from cat", "second"])
        .await;
    messaging.stop().await;
}
