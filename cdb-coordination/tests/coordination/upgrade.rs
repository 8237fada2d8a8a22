//! Stored documents of earlier releases, and the refusal of newer schema versions.
//!
//! `upgrade/schema_1.jsonl` has the documents that the release before the schema version has left: an
//! undelivered message, a message that was delivered and not received, streams, records, dead
//! letters of both sides, an answer, and a group with two members.

use std::time::Duration;

use crate::backend::Backend;
use crate::stored_message::StoredMessage;
use cdb_client::transport::SimulatedTime;
use cdb_client::{Bootstrap, ContainerClient};
use cdb_coordination::membership::{MemberDocument, MemberRecord, MemberState, MembershipConfig};
use cdb_coordination::messaging::MessagingConfig;
use cdb_coordination::outbox::OutboxError;
use cdb_coordination::{DeadLetters, Membership, Message, MessageDocument, Messaging, Received};
use cdb_model::{Container, Document, Query, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;

const SCHEMA_1: &str = include_str!("upgrade/schema_1.jsonl");

/// A document of the membership.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "member", id = "{place}:member:{name}")]
struct StoredMember {
    #[document(partition_key)]
    place: String,
    name: String,
    record: Value,
}

#[derive(Container)]
enum StoredShop {
    Message(StoredMessage),
    Member(StoredMember),
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "member", id = "{place}:member:{name}")]
struct ShopMember {
    #[document(partition_key)]
    place: String,
    name: String,
    record: MemberRecord,
}

impl MemberDocument for ShopMember {
    fn new(group: &str, name: &str, record: MemberRecord) -> Self {
        Self {
            place: group.to_owned(),
            name: name.to_owned(),
            record,
        }
    }

    fn into_record(self) -> MemberRecord {
        self.record
    }
}

#[derive(Container)]
enum Shop {
    Message(MessageDocument<Shop>),
    Member(ShopMember),
}

#[derive(Serialize, Deserialize)]
struct Note {
    number: u64,
}

impl Message for Note {
    const TYPE: &'static str = "note";
}

async fn open<C: Container>(backend: &Backend, name: &str) -> ContainerClient<C> {
    let database = backend.database();
    let opened = database.bootstrap(name, Bootstrap::CreateIfMissing);
    opened.await.expect("a container")
}

/// A container with the indexes of this release, for documents of other releases.
async fn open_stored(backend: &Backend) -> ContainerClient<StoredShop> {
    open::<Shop>(backend, "shop").await;
    backend.database().container("shop")
}

/// The documents of the fixture are older than the default retention.
fn config() -> MessagingConfig {
    MessagingConfig::default().with_retention(Duration::from_secs(100 * 365 * 24 * 3600))
}

/// Stores the documents of the fixture, as the earlier release has left them.
async fn leave_schema_1(backend: &Backend) {
    let shop = open_stored(backend).await;
    for line in SCHEMA_1.lines() {
        let document: Value = serde_json::from_str(line).expect("a document");
        if document["type"] == "member" {
            let member: StoredMember = serde_json::from_value(document).expect("a member");
            shop.run(member.create()).await.expect("a stored member");
        } else {
            let (kind, _) = document["id"]
                .as_str()
                .and_then(|id| id.split_once(':'))
                .expect("an id");
            let kind = kind.to_owned();
            let message = serde_json::from_value(document).expect("a message");
            let message = StoredMessage { kind, ..message };
            shop.run(message.create()).await.expect("a stored message");
        }
    }
}

/// Stores a schema version as a newer release would.
async fn leave_newer_schema(backend: &Backend) {
    // The hash of the request.
    let slot = "39f5ad89e517ac514078ab74ba033669ec190646a494d944a5cb981380744071";
    let mail = serde_json::json!({
        "kind": "answer", "request": "cdb:form",
        "result": r#"{"form":2,"writtenBy":"cdb-coordination 9.0.0"}"#,
    });
    let schema = StoredMessage {
        place: "cdb:messaging".to_owned(),
        kind: "answer".to_owned(),
        slot: slot.to_owned(),
        mail,
        ..StoredMessage::default()
    };
    let shop = open_stored(backend).await;
    shop.run(schema.create())
        .await
        .expect("a stored schema version");
}

/// Messaging that passes on the numbers of the received notes.
fn receiving(
    container: &ContainerClient<Shop>,
    routes: &[&ContainerClient<Shop>],
    received: &mpsc::UnboundedSender<u64>,
) -> Messaging<Shop> {
    let received = received.clone();
    let builder = Messaging::builder(container.clone()).config(config());
    let builder = routes
        .iter()
        .fold(builder, |builder, &route| builder.route(route.clone()));
    builder
        .on(move |note: Received<Note>, batch| {
            received
                .send(note.message.number)
                .expect("the test goes on");
            async { Ok(batch) }
        })
        .start()
        .expect("the durations fit")
}

#[tokio::test(start_paused = true)]
async fn messages_of_the_release_before_the_schema_version_are_delivered_and_received() {
    let backend = Backend::start(1, Some(SimulatedTime::new())).await;
    leave_schema_1(&backend).await;
    let shop = open::<Shop>(&backend, "shop").await;
    let archive = open::<Shop>(&backend, "archive").await;
    let (to_shop, mut in_shop) = mpsc::unbounded_channel();
    let (to_archive, mut in_archive) = mpsc::unbounded_channel();
    let messaging = receiving(&shop, &[&archive], &to_shop);
    let archiving = receiving(&archive, &[], &to_archive);

    for expected in [4, 5] {
        assert_eq!(
            in_shop.recv().await,
            Some(expected),
            "delivered, not received"
        );
    }
    assert_eq!(in_archive.recv().await, Some(9), "not delivered");
    let mut batch = messaging.batch("ann");
    batch
        .send("bob", &Note { number: 6 })
        .expect("a small message");
    messaging.commit(batch).await.expect("a commit");
    assert_eq!(in_shop.recv().await, Some(6), "the stream goes on");
    let repeated = messaging.commit_once(messaging.batch("ann"), "request-1", 8_u64);
    assert_eq!(repeated.await.expect("the first answer"), 7);

    let dead = messaging.dead_letters();
    let letters = dead.list(Timestamp::default(), 10).await.expect("a list");
    assert_eq!(letters.len(), 2, "{letters:?}");
    for letter in letters {
        dead.redrive(&letter).await.expect("a redrive");
    }
    assert_eq!(in_shop.recv().await, Some(2));
    assert_eq!(in_archive.recv().await, Some(8));
    messaging.stop().await;
    archiving.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_of_the_release_before_the_schema_version_is_joined_and_takes_the_version() {
    let backend = Backend::start(1, Some(SimulatedTime::new())).await;
    leave_schema_1(&backend).await;
    let shop = open::<Shop>(&backend, "shop").await;
    let joined = Membership::start::<ShopMember, _>(shop.clone(), MembershipConfig::named("cat"));
    let mut views = joined.watch();
    let all = views.wait_for(|view| view.members().len() == 3).await;
    assert!(all.expect("a member").members().contains(&"ann".to_owned()));
    // The members of the fixture send no heartbeats.
    let alone = views.wait_for(|view| view.members() == ["cat"]).await;
    drop(alone.expect("a member"));
    let stored = shop.query(Query::<ShopMember>::in_partition("cdb:members"));
    let records = stored.all().await.expect("the group").into_iter();
    let mut records = records.map(|row| row.document.record);
    assert!(
        records.any(|record| record == MemberRecord::roster(vec!["cat".to_owned()])),
        "the roster has the schema version of this release"
    );
    joined.leave().await;
}

#[tokio::test(start_paused = true)]
async fn messages_of_a_newer_schema_are_refused_and_left_alone() {
    let backend = Backend::start(1, Some(SimulatedTime::new())).await;
    leave_schema_1(&backend).await;
    leave_newer_schema(&backend).await;
    let shop = open::<Shop>(&backend, "shop").await;
    let (received, mut numbers) = mpsc::unbounded_channel();
    let messaging = receiving(&shop, &[], &received);
    let refused = messaging.commit(messaging.batch("ann")).await;
    let refused = refused.expect_err("a newer schema version");
    assert!(
        matches!(
            refused,
            OutboxError::NewerSchema {
                stored: 2,
                supported: 1,
                ..
            }
        ),
        "{refused}"
    );
    assert!(
        refused
            .to_string()
            .contains("written by cdb-coordination 9.0.0"),
        "{refused}"
    );
    let dead = DeadLetters::new(shop, config());
    let letter = dead
        .list(Timestamp::default(), 1)
        .await
        .expect("a list")
        .remove(0);
    let refused = dead.redrive(&letter).await;
    assert!(matches!(refused, Err(OutboxError::NewerSchema { .. })));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(numbers.try_recv().is_err(), "nothing is received");
    messaging.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_roster_of_a_newer_schema_is_not_joined() {
    let backend = Backend::start(1, Some(SimulatedTime::new())).await;
    let stored = open_stored(&backend).await;
    let roster = StoredMember {
        place: "cdb:members".to_owned(),
        name: "roster".to_owned(),
        record: serde_json::json!({"kind": "roster", "members": ["dan"], "form": 2}),
    };
    stored.run(roster.create()).await.expect("a stored roster");
    let shop = open::<Shop>(&backend, "shop").await;
    let refused = Membership::start::<ShopMember, _>(shop, MembershipConfig::named("cat"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_ne!(refused.view().state(), MemberState::Member);
    let key = StoredMemberKey::new("cdb:members", "roster");
    let left = stored
        .read(&key)
        .await
        .expect("a read")
        .expect("the roster");
    assert_eq!(left.document.record, roster.record);
}
