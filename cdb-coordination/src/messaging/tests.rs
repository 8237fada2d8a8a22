//! Cases that the public interface cannot produce: repeated deliveries, missing messages, old
//! messages. Time is simulated.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_client::transport::SimulatedTime;
use cdb_client::{Bootstrap, CosmosClient, MasterKey};
use cdb_emulator::Emulator;
use cdb_model::{Container, Document, Query, Stored, Timestamp};
use serde::{Deserialize, Serialize};

use crate::message::Content;
use crate::message::Side;
use crate::messaging::{DeadLetter, MessagingConfig};
use crate::outbox::{OutboxTransport as _, commit, reconcile};
use crate::retry::{DeliveryError, RetryPolicy};
use crate::{Message, MessageDocument, Messaging, Received};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "receipt", id = "receipt:{number}")]
struct Receipt {
    #[document(partition_key)]
    partition: String,
    number: u32,
}

#[derive(Container)]
enum TestContainer {
    Receipt(Receipt),
    Message(MessageDocument<TestContainer>),
}

#[derive(Serialize, Deserialize)]
struct Note(u32);

impl Message for Note {
    const TYPE: &'static str = "note";
}

struct TestEnv {
    _emulator: Emulator,
    messaging: Messaging<TestContainer>,
    received: Arc<Mutex<Vec<u32>>>,
}

impl TestEnv {
    /// Starts messaging that receives in all partitions but delivers nothing in the background.
    async fn new(retention: Duration) -> Self {
        let time = SimulatedTime::new();
        let emulator = Emulator::builder().clock(time.clock()).start();
        let emulator = time.in_real_time(emulator).await.unwrap();
        let client = CosmosClient::builder(emulator.endpoint())
            .credential(MasterKey::new(emulator.key()).unwrap())
            .transport(time.clone())
            .clock_of(&time)
            .build()
            .unwrap();
        let database = client.database("test");
        let container = database.bootstrap("test", Bootstrap::CreateIfMissing);
        let received = Arc::new(Mutex::new(Vec::new()));
        let notes = received.clone();
        let messaging = Messaging::builder(container.await.unwrap())
            .config(
                MessagingConfig::default()
                    .with_retention(retention)
                    .with_poll_interval(Duration::from_secs(3_600))
                    .with_claims(Duration::from_millis(50), Duration::from_millis(50))
                    .with_retry(
                        RetryPolicy::default()
                            .with_delays(Duration::ZERO, Duration::from_millis(10)),
                    ),
            )
            .on(move |note: Received<Note>, mut batch| {
                let number = note.message.0;
                notes.lock().unwrap().push(number);
                async move {
                    let partition = "bob".to_owned();
                    batch.add(Receipt { partition, number }.create())?;
                    Ok(batch)
                }
            })
            .start_unchecked();
        Self {
            _emulator: emulator,
            messaging,
            received,
        }
    }

    /// Commits notes from Ann to Bob without delivering them.
    async fn commit(
        &self,
        numbers: impl IntoIterator<Item = u32>,
    ) -> Vec<Stored<MessageDocument<TestContainer>>> {
        let inner = &self.messaging.inner;
        let mut batch = self.messaging.batch("ann");
        for number in numbers {
            batch.send("bob", &Note(number)).unwrap();
        }
        let reserved = Duration::ZERO;
        let lifetimes = inner.lifetimes();
        let sent = commit(&inner.container, &batch, reserved, lifetimes, &inner.jitter).await;
        sent.unwrap()
    }

    async fn deliver(&self, messages: &[Stored<MessageDocument<TestContainer>>]) {
        for result in self.messaging.inner.deliver(messages, &[]).await {
            result.unwrap();
        }
    }

    async fn reconcile(&self) {
        let inner = &self.messaging.inner;
        reconcile(&**inner, &inner.config.retry, &inner.jitter).await;
    }

    /// Receives in Bob's partition, and returns all notes received so far.
    async fn receive(&self) -> Vec<u32> {
        let inner = &self.messaging.inner;
        tokio::time::sleep(Duration::from_millis(100)).await;
        inner.receive_in(&"bob".into()).await.unwrap();
        self.received.lock().unwrap().clone()
    }

    /// Receives in Bob's partition until no message is left there, then checks all received notes.
    async fn assert_all_received(&self, expected: &[u32]) {
        for _ in 0..300 {
            let received = self.receive().await;
            if self.incoming().await == 0 {
                assert_eq!(received, expected);
                return;
            }
        }
        panic!("a message is never received");
    }

    /// Counts the messages that have arrived and are not received.
    async fn incoming(&self) -> usize {
        self.count(|content| matches!(content, Content::Incoming(_)))
            .await
    }

    /// Returns the only dead letter.
    async fn dead_letter(&self) -> DeadLetter {
        let letters = self.messaging.dead_letters();
        let found = letters.list(Timestamp::default(), 10).await.unwrap();
        let [letter] = <[DeadLetter; 1]>::try_from(found).unwrap();
        letter
    }

    /// Counts the message documents of a kind.
    async fn count(&self, is_kind: fn(&Content) -> bool) -> usize {
        let query = Query::<MessageDocument<TestContainer>>::across_partitions();
        let found = self.messaging.container().query(query).all().await.unwrap();
        let kinds = found
            .iter()
            .filter(|stored| is_kind(stored.document.content()));
        kinds.count()
    }
}

const WEEK: Duration = Duration::from_secs(7 * 24 * 3_600);

#[tokio::test(start_paused = true)]
async fn a_message_delivered_again_after_its_receipt_changes_nothing() {
    let env = TestEnv::new(WEEK).await;
    let sent = env.commit([1, 2]).await;
    env.deliver(&sent).await;
    assert_eq!(env.receive().await, [1, 2]);
    assert_eq!(env.incoming().await, 0);

    env.deliver(&sent).await;
    env.deliver(&sent).await;
    assert_eq!(env.receive().await, [1, 2]);
    assert_eq!(env.incoming().await, 0, "the second copies are deleted");
}

#[tokio::test(start_paused = true)]
async fn an_early_message_waits_for_the_earlier_ones_of_its_stream() {
    let env = TestEnv::new(WEEK).await;
    let sent = env.commit([1, 2, 3]).await;
    env.deliver(&sent[2..]).await;
    env.deliver(&sent[1..2]).await;
    assert!(env.receive().await.is_empty());
    env.deliver(&sent[..1]).await;
    env.assert_all_received(&[1, 2, 3]).await;
}

#[tokio::test(start_paused = true)]
async fn a_message_dead_lettered_in_the_outbox_frees_its_stream_and_arrives_when_redriven() {
    let env = TestEnv::new(WEEK).await;
    let sent = env.commit([1, 2]).await;
    let inner = &env.messaging.inner;
    inner
        .dead_letter(&sent[0], &DeliveryError::permanent("a test"))
        .await;
    env.deliver(&sent[1..]).await;
    assert!(env.receive().await.is_empty());
    env.reconcile().await;
    env.assert_all_received(&[2]).await;

    let dead = env.dead_letter().await;
    assert_eq!((dead.side, &*dead.payload), (Side::Outbox, "1"));
    assert_eq!(dead.history.len(), 1);
    let letters = env.messaging.dead_letters();
    letters.redrive(&dead).await.unwrap();
    env.reconcile().await;
    env.assert_all_received(&[2, 1]).await;
    assert_eq!(letters.count().await.unwrap(), 0);
    // Only the stream records remain on both sides, and the schema version, which is stored as an answer.
    let is_message = |content: &Content| {
        !matches!(
            content,
            Content::Stream(_) | Content::Seen(_) | Content::Answer(_)
        )
    };
    assert_eq!(env.count(is_message).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_gap_is_skipped_once_no_message_can_fill_it() {
    let env = TestEnv::new(Duration::from_secs(4)).await;
    let sent = env.commit([1, 2]).await;
    env.deliver(&sent[1..]).await;
    env.messaging.inner.deliver(&[], &sent[1..]).await;
    assert!(env.receive().await.is_empty());
    tokio::time::sleep(Duration::from_millis(5_100)).await;
    env.assert_all_received(&[2]).await;
    // The missing message is too old to be delivered.
    env.reconcile().await;
    assert_eq!(env.receive().await, [2]);
    let reason = env.dead_letter().await.reason;
    assert!(reason.contains("retention"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn a_message_not_received_in_time_becomes_a_dead_letter() {
    let env = TestEnv::new(Duration::from_millis(100)).await;
    let sent = env.commit([1]).await;
    let messaging = env.messaging.clone();
    // Stored directly, so the receiver is not told about the partition.
    let arrived = match sent[0].document.content() {
        Content::Outgoing(outgoing) => crate::outbox::arriving(outgoing.envelope.clone()),
        other => panic!("{other:?}"),
    };
    let due = messaging.container().now();
    let arrived = MessageDocument::<TestContainer>::incoming(arrived, due);
    messaging.container().run(arrived.create()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(env.receive().await.is_empty());
    assert_eq!(env.dead_letter().await.side, Side::Inbox);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_kills_its_process_becomes_a_dead_letter() {
    let env = TestEnv::new(WEEK).await;
    let sent = env.commit([1]).await;
    let Content::Outgoing(outgoing) = sent[0].document.content() else {
        panic!("a message was sent");
    };
    let mut arrived = crate::outbox::arriving(outgoing.envelope.clone());
    // Ten processes have died while handling it.
    arrived.started = 10;
    let container = env.messaging.container();
    let arrived = MessageDocument::<TestContainer>::incoming(arrived, container.now());
    container.run(arrived.create()).await.unwrap();
    assert!(env.receive().await.is_empty());
    let reason = env.dead_letter().await.reason;
    assert!(reason.contains("started 10 times"), "{reason}");
}
