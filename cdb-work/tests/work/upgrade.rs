//! Containers of other versions: from before the schema version, and with a newer one.

use cdb_client::ContainerClient;
use cdb_model::{Container, Document, Query, Timestamp};
use cdb_work::{Lane, NewEvent, NewWork, Settlement, Work, WorkCoordinator, WorkError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::test_env::{PARTITION, TestEnv, config, message, next, one_partition};

/// The stored form before the schema version, field for field.
#[derive(Container)]
#[container(default_ttl = "per_document")]
enum Before {
    Settings(OldSettings),
    Partition(OldPartition),
    Stream(OldStream),
    Message(OldMessage),
    Head(OldHead),
    Event(OldEvent),
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "work_settings", id = "{partition}:settings")]
struct OldSettings {
    #[document(partition_key)]
    partition: String,
    partitions: u16,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "work_partition", id = "{partition}:partition")]
struct OldPartition {
    #[document(partition_key)]
    partition: String,
    owner: Option<String>,
    fence: u64,
    until: Timestamp,
    token: String,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "work_stream", id = "{partition}:stream:{lane}:{stream}")]
struct OldStream {
    #[document(partition_key)]
    partition: String,
    lane: Lane,
    stream: String,
    next: u64,
    done: u64,
    touched: Timestamp,
}

#[derive(Document, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[document(
    type = "work_message",
    id = "{partition}:message:{lane}:{stream}:{message_id}"
)]
struct OldMessage {
    #[document(partition_key)]
    partition: String,
    lane: Lane,
    stream: String,
    message_id: String,
    sequence: u64,
    waiting_since: Option<Timestamp>,
    due_at: Timestamp,
    status: u32,
    needs: u32,
    attempts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_failure: Option<String>,
    kind: String,
    body: String,
    token: String,
    #[document(ttl)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl: Option<u32>,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "event_head", id = "{partition}:event-head:{stream}")]
struct OldHead {
    #[document(partition_key)]
    partition: String,
    stream: String,
    version: u64,
}

#[derive(Document, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[document(type = "event", id = "{partition}:event:{stream}:{version}")]
struct OldEvent {
    #[document(partition_key)]
    partition: String,
    stream: String,
    version: u64,
    kind: String,
    body: String,
    recorded_at: Timestamp,
    token: String,
}

fn read<D: for<'a> Deserialize<'a>>(stored: Value) -> D {
    serde_json::from_value(stored).unwrap()
}

/// What a coordinator of the earlier version left when it was killed.
async fn leave(container: &ContainerClient<Before>) {
    let settings: OldSettings = read(json!({"partition": "work-settings", "partitions": 1}));
    container.run(settings.create()).await.unwrap();
    let held: OldPartition = read(json!({
        "partition": PARTITION, "owner": "work-before", "fence": 7, "until": 1000, "token": "t"
    }));
    container.run(held.create()).await.unwrap();
    let stream: OldStream = read(json!({
        "partition": PARTITION, "lane": "inbox", "stream": "a", "next": 4, "done": 1, "touched": 1000
    }));
    container.run(stream.create()).await.unwrap();
    for (sequence, is_done) in [(1, true), (2, false), (3, false)] {
        let waiting = if is_done { Value::Null } else { json!(1000) };
        let mut stored = json!({
            "partition": PARTITION, "lane": "inbox", "stream": "a",
            "messageId": sequence.to_string(), "sequence": sequence, "waitingSince": waiting,
            "dueAt": 1000, "status": 1, "needs": 8, "attempts": 0, "kind": "count", "body": "{}",
            "token": "t"
        });
        if is_done {
            stored["ttl"] = json!(604_800);
        } else {
            stored["attempts"] = json!(1);
            stored["lastFailure"] = json!("out of stock");
        }
        let stored: OldMessage = read(stored);
        container.run(stored.create()).await.unwrap();
    }
    let newest: OldHead = read(json!({"partition": PARTITION, "stream": "a", "version": 1}));
    container.run(newest.create()).await.unwrap();
    let event: OldEvent = read(json!({
        "partition": PARTITION, "stream": "a", "version": 1, "kind": "placed", "body": "{}",
        "recordedAt": 1000, "token": "t"
    }));
    container.run(event.create()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_container_from_before_the_schema_version_continues_where_it_stopped() {
    let env = TestEnv::start().await;
    let before = env.container::<Before>();
    leave(&before).await;
    let work = env.open(one_partition()).await;
    let now = work.immediate();
    let duplicate = now.store(message("a", 1)).await.unwrap();
    assert_eq!(duplicate, Settlement::Duplicate);
    let stored = ok!(now.store(NewWork::inbox("a", "4").as_event()));
    assert_eq!(stored, Settlement::Stored { sequence: 4 });
    for id in ["2", "3", "4"] {
        let claimed = next(&work).await;
        assert_eq!(claimed.message().message_id, id);
        assert!(claimed.fencing_token() > 7);
        now.report(claimed.done()).await.unwrap();
    }
    let events = work.events();
    ok!(events.append("a", 2, vec![NewEvent::new("ended", "")]));
    let history = events.read("a", 0, 10).await.unwrap();
    assert_eq!((history.len(), &*history[0].kind), (3, "placed"));
    work.shutdown().await.unwrap();
    assert_readable(&before).await;
}

/// The earlier version reads what this version has written.
async fn assert_readable(before: &ContainerClient<Before>) {
    let messages = before.query(Query::<OldMessage>::across_partitions()).all();
    assert_eq!(messages.await.unwrap().len(), 4);
    let events = before.query(Query::<OldEvent>::across_partitions()).all();
    assert_eq!(events.await.unwrap().len(), 3);
    let streams = before
        .query(Query::<OldStream>::across_partitions())
        .all()
        .await;
    assert_eq!(streams.unwrap()[0].document.done, 4);
    let held = before
        .query(Query::<OldPartition>::across_partitions())
        .all()
        .await;
    assert_eq!(held.unwrap()[0].document.owner, None);
}

#[derive(Container)]
enum Newer {
    Settings(NewerSettings),
}

#[derive(Document, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[document(type = "work_settings", id = "{partition}:settings")]
struct NewerSettings {
    #[document(partition_key)]
    partition: String,
    partitions: u16,
    form: u32,
    written_by: String,
}

#[tokio::test(start_paused = true)]
async fn a_container_with_a_newer_schema_is_refused_before_anything_is_written() {
    let env = TestEnv::start().await;
    let settings = NewerSettings {
        partition: "work-settings".to_owned(),
        partitions: 4,
        form: 2,
        written_by: "cdb-work 9.0.0".to_owned(),
    };
    ok!(env.container::<Newer>().run(settings.create()));
    let slots = std::sync::Arc::new(cdb_coordination::membership::InMemoryLeaseProvider::all());
    let container = env.container::<Work>();
    let refused = WorkCoordinator::open(container.clone(), slots, config()).await;
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused, WorkError::NewerSchema { stored: 2, .. }),
        "{refused}"
    );
    assert!(
        refused.to_string().contains("written by cdb-work 9.0.0"),
        "{refused}"
    );
    let held = Query::<cdb_work::WorkPartition>::across_partitions();
    assert!(container.query(held).all().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_new_container_has_the_schema_version() {
    let env = TestEnv::start().await;
    let _work = env.open(config()).await;
    let written = env.container::<Newer>();
    let key = NewerSettingsKey::new("work-settings");
    let settings = written.read(&key).await.unwrap().unwrap().document;
    assert_eq!((settings.form, settings.partitions), (1, 4));
    assert!(settings.written_by.starts_with("cdb-work "));
}
