//! Documents that another program has damaged: they are reported and block only their own streams.

use cdb_client::ContainerClient;
use cdb_client::feed::FeedStart;
use cdb_model::{Container, Document, Patch};
use cdb_work::{FlushStrategy, Lane, NewEvent, NewWork, Settlement, WorkError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::test_env::{PARTITION, TestEnv, message, next, nothing, one_partition};

#[derive(Document, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[document(
    type = "work_message",
    id = "{partition}:message:{lane}:{stream}:{message_id}"
)]
struct RawMessage {
    #[document(partition_key)]
    partition: String,
    lane: Lane,
    stream: String,
    message_id: String,
    body: Value,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "work_stream", id = "{partition}:stream:{lane}:{stream}")]
struct RawStream {
    #[document(partition_key)]
    partition: String,
    lane: Lane,
    stream: String,
    touched: Value,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "event", id = "{partition}:event:{stream}:{version}")]
struct RawEvent {
    #[document(partition_key)]
    partition: String,
    stream: String,
    version: u64,
    body: Value,
}

#[derive(Container)]
enum Spoiler {
    Message(RawMessage),
    Stream(RawStream),
    Event(RawEvent),
}

fn torn() -> Value {
    json!({"torn": true})
}

async fn spoil_message(spoiler: &ContainerClient<Spoiler>, stream: &str, id: &str) {
    let key = RawMessageKey::new(PARTITION, Lane::Inbox, stream, id);
    let patch = Patch::<RawMessage>::new().set(RawMessage::BODY, torn());
    spoiler.run(patch.at(&key)).await.unwrap();
}

async fn spoil_stream(spoiler: &ContainerClient<Spoiler>, stream: &str) {
    let key = RawStreamKey::new(PARTITION, Lane::Inbox, stream);
    let patch = Patch::<RawStream>::new().set(RawStream::TOUCHED, torn());
    spoiler.run(patch.at(&key)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_message_is_set_aside_and_holds_its_stream_alone() {
    let env = TestEnv::start().await;
    // Holds no partition, so no stream is in memory.
    let sender = env.open_share(one_partition(), 255, 256).await;
    let now = sender.immediate();
    for (stream, number) in [("a", 1), ("a", 2), ("b", 1)] {
        now.store(message(stream, number)).await.unwrap();
    }
    spoil_message(&env.container(), "a", "1").await;
    let work = env.open(one_partition()).await;
    let claimed = next(&work).await;
    assert_eq!(claimed.message().stream, "b");
    work.immediate().report(claimed.done()).await.unwrap();
    nothing(&work).await;

    let aside = work.dead_letters(10).await.unwrap();
    let [aside] = &aside[..] else {
        panic!("{aside:?}");
    };
    assert_eq!((&*aside.stream, aside.sequence), ("a", 1));
    assert!(aside.body.contains("torn"), "{}", aside.body);
    let reason = aside.last_failure.as_deref().unwrap();
    assert!(reason.contains("cannot be read"), "{reason}");
    let found = work.admin().dead_letter(&aside.key()).await.unwrap();
    assert_eq!(found.unwrap().body, aside.body);
    // A redrive leads to the same result.
    work.redrive(aside).await.unwrap();
    nothing(&work).await;
    let aside = work.dead_letters(10).await.unwrap();
    work.discard(&aside[0]).await.unwrap();
    let claimed = next(&work).await;
    assert_eq!(claimed.message().message_id, "2");
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_of_an_unreadable_message_is_detected() {
    let env = TestEnv::start().await;
    let sender = env.open_share(one_partition(), 255, 256).await;
    let now = sender.immediate();
    for number in 1..=2 {
        now.store(message("a", number)).await.unwrap();
    }
    spoil_message(&env.container(), "a", "2").await;
    let scope = sender.scoped();
    let mut receipts = Vec::new();
    for number in 1..=3 {
        receipts.push(scope.store(message("a", number)).await);
    }
    scope.commit().await.unwrap();
    let mut settled = Vec::new();
    for receipt in receipts {
        settled.push(receipt.settled().await.unwrap());
    }
    let new = Settlement::Stored { sequence: 3 };
    assert_eq!(settled, [Settlement::Duplicate, Settlement::Duplicate, new]);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_stream_refuses_its_own_entries_alone() {
    let env = TestEnv::start().await;
    let first = env.open_share(one_partition(), 255, 256).await;
    for stream in ["a", "b"] {
        first.immediate().store(message(stream, 1)).await.unwrap();
    }
    spoil_stream(&env.container(), "a").await;
    let second = env.open_share(one_partition(), 255, 256).await;
    let scope = second.scoped();
    let refused = scope.store(message("a", 2)).await;
    let stored = scope.store(message("b", 2)).await;
    scope.commit().await.unwrap();
    let refused = refused.settled().await.unwrap_err();
    assert!(
        matches!(&refused, WorkError::Unreadable { stream } if stream == "a"),
        "{refused}"
    );
    let stored = stored.settled().await.unwrap();
    assert_eq!(stored, Settlement::Stored { sequence: 2 });
}

#[tokio::test(start_paused = true)]
async fn a_feed_skips_unreadable_events() {
    let env = TestEnv::start().await;
    let work = env.open(one_partition()).await;
    let events = work.events();
    let two = ["placed", "paid"].map(|kind| NewEvent::new(kind, "{}"));
    events.append("a", 0, two.into()).await.unwrap();
    ok!(work.immediate().store(NewWork::inbox("a", "1")));
    let spoiler = env.container();
    spoil_message(&spoiler, "a", "1").await;
    let key = RawEventKey::new(PARTITION, "a", 1_u64);
    let patch = Patch::<RawEvent>::new().set(RawEvent::BODY, torn());
    spoiler.run(patch.at(&key)).await.unwrap();

    let mut feed = events.follow(FeedStart::Beginning);
    let found = feed.next_events().await.unwrap();
    let kinds: Vec<&str> = found.iter().map(|event| &*event.document.kind).collect();
    assert_eq!(kinds, ["paid"]);
    assert!(feed.next_events().await.unwrap().is_empty());
    assert!(
        events.read("a", 0, 10).await.is_err(),
        "a read of the stream fails"
    );
}
