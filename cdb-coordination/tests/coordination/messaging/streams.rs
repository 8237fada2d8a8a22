//! Outbox and inbox through the public interface: order, dead letters, faults.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use cdb_client::transport::SimulatedTime;
use cdb_client::{Bootstrap, ContainerClient};
use cdb_coordination::message::Side;
use cdb_coordination::messaging::{DeadLetter, Handled, MessagingBuilder, MessagingConfig};
use cdb_coordination::outbox::OutboxError;
use cdb_coordination::retry::RetryPolicy;
use cdb_coordination::{HandlerError, Message, MessageDocument, Messaging, OutboxBatch, Received};
use cdb_emulator::{Effect, Fault};
use cdb_model::{Container, Document, Timestamp};
use serde::{Deserialize, Serialize};

use crate::backend::Backend;
use crate::skewed::Skewed;

/// The notes that a partition has received, in order.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "diary", id = "{place}:diary")]
struct Diary {
    #[document(partition_key)]
    place: String,
    lines: Vec<String>,
}

#[derive(Container)]
enum House {
    Diary(Diary),
    Message(MessageDocument<House>),
}

/// A container with another partition key.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "room", id = "room")]
struct Room {
    #[document(partition_key)]
    floor: u32,
    noted: String,
}

#[derive(Container)]
#[container(discriminator = "what")]
enum Hotel {
    Room(Room),
    Message(MessageDocument<Hotel>),
}

#[derive(Serialize, Deserialize, Clone, Debug)]
struct Note {
    from: String,
    number: u64,
}

impl Message for Note {
    const TYPE: &'static str = "note";
}

#[derive(Serialize, Deserialize)]
struct Unheard;

impl Message for Unheard {
    const TYPE: &'static str = "unheard";
}

struct TestEnv {
    backend: Backend,
    house: ContainerClient<House>,
    hotel: ContainerClient<Hotel>,
}

impl TestEnv {
    async fn new() -> Self {
        let backend = Backend::start(1, Some(SimulatedTime::new())).await;
        let database = backend.database();
        let house = ok!(database.bootstrap("house", Bootstrap::CreateIfMissing));
        let hotel = database.bootstrap("hotel", Bootstrap::CreateIfMissing);
        let hotel = hotel.await.expect("another container");
        Self {
            backend,
            house,
            hotel,
        }
    }

    fn silent(&self) -> MessagingBuilder<House> {
        Messaging::builder(self.house.clone()).config(config())
    }

    /// Messaging that records what it receives.
    fn messaging(&self) -> MessagingBuilder<House> {
        Self::messaging_on(&self.house)
    }

    fn messaging_on(house: &ContainerClient<House>) -> MessagingBuilder<House> {
        let notes = house.clone();
        Messaging::builder(house.clone())
            .config(config())
            .on(move |note, batch| note_down(notes.clone(), note, batch))
    }

    /// Messaging with a clock that is ten seconds ahead or behind.
    fn skewed(&self, ahead: bool) -> MessagingBuilder<House> {
        let network = Skewed::new(self.backend.time.clone(), ahead);
        let client = self.backend.builder().transport(network);
        let client = client.build().expect("an endpoint");
        Self::messaging_on(&client.database(&self.backend.database).container("house"))
    }

    async fn lines(&self, place: &str) -> Vec<String> {
        let diary = self.house.read(&DiaryKey::new(place)).await;
        let diary = diary.ok().flatten();
        diary.map(|diary| diary.document.lines).unwrap_or_default()
    }

    async fn until_lines(&self, place: &str, count: usize) -> Vec<String> {
        eventually(async || {
            let lines = self.lines(place).await;
            (lines.len() >= count).then_some(lines)
        })
        .await
    }
}

fn config() -> MessagingConfig {
    MessagingConfig::default()
        .with_claims(Duration::from_millis(200), Duration::from_millis(500))
        .with_poll_interval(Duration::from_millis(50))
        .with_retry(
            RetryPolicy::default()
                .with_delays(Duration::from_millis(5), Duration::from_millis(50))
                .with_max_attempts(3),
        )
}

async fn eventually<T>(mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "the condition never held"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn note_down(
    house: ContainerClient<House>,
    note: Received<Note>,
    mut batch: OutboxBatch<House>,
) -> Handled<House> {
    let place = note.from.container.clone();
    assert_eq!(place, "house");
    let to = match batch.partition().values() {
        [cdb_model::value::PartitionKeyValue::String(place)] => place.clone(),
        other => return Err(HandlerError::permanently(format!("{other:?}"))),
    };
    let line = format!("{} {}", note.message.from, note.message.number);
    if let Some(mut diary) = house.read(&DiaryKey::new(&*to)).await? {
        diary.document.lines.push(line);
        batch.add(diary.replace())?;
    } else {
        let lines = vec![line];
        batch.add(Diary { place: to, lines }.create())?;
    }
    Ok(batch)
}

fn note(from: &str, number: u64) -> Note {
    Note {
        from: from.to_owned(),
        number,
    }
}

async fn send(messaging: &Messaging<House>, to: &str, note: &Note) -> Result<(), OutboxError> {
    let mut batch = messaging.batch(&*note.from);
    batch.send(to, note).expect("a note is JSON");
    messaging.commit(batch).await
}

/// Sends until the commit succeeds. The outcome must be known after every failure.
async fn insist(messaging: &Messaging<House>, to: &str, note: &Note) {
    while let Err(error) = send(messaging, to, note).await {
        let open = matches!(&error, OutboxError::Failed(error) if error.is_ambiguous());
        assert!(!open, "{error}");
    }
}

async fn first_dead_letter(messaging: &Messaging<House>) -> DeadLetter {
    eventually(async || {
        let found = messaging
            .dead_letters()
            .list(Timestamp::default(), 10)
            .await;
        found.ok()?.into_iter().next()
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn two_processes_keep_the_order_of_every_stream_while_requests_fail() {
    const NOTES: u64 = 12;
    let env = TestEnv::new().await;
    let emulator = or_skip!(&env.backend.emulator);
    let (first, second) = (
        env.messaging().start().expect("the durations fit"),
        env.messaging().start().expect("the durations fit"),
    );
    for effect in [Effect::DropAnswer, Effect::DropRequest] {
        emulator.inject(Fault::with_probability(effect, 0.025));
    }
    let senders = ["ann", "bob", "cat"].map(|from| {
        let messagings = [first.clone(), second.clone()];
        tokio::spawn(async move {
            for number in 1..=NOTES {
                let messaging = &messagings[usize::from(number % 2 == 0)];
                insist(messaging, "zoe", &note(from, number)).await;
            }
        })
    });
    for sender in senders {
        sender.await.expect("all messages are sent");
    }
    let lines = env.until_lines("zoe", 3 * 12).await;
    emulator.clear_faults();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(env.lines("zoe").await, lines, "no message arrives twice");
    let mut by_sender: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for line in &lines {
        let (from, number) = line.split_once(' ').expect("a line has two words");
        let numbers = by_sender.entry(from).or_default();
        numbers.push(number.parse().expect("a number"));
    }
    for (from, numbers) in by_sender {
        assert_eq!(numbers, (1..=NOTES).collect::<Vec<_>>(), "from {from}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_inherits_trace_context_and_scope_from_the_message_being_handled() {
    let env = TestEnv::new().await;
    let (received, mut contexts) = tokio::sync::mpsc::unbounded_channel();
    let handler = move |note: Received<Note>, mut batch: OutboxBatch<House>| {
        let received = received.clone();
        async move {
            let is_first = note.context.headers.len() == 2;
            received.send(note.context).expect("the test goes on");
            if is_first {
                batch.send("b", &note.message)?;
            }
            Ok(batch)
        }
    };
    let messaging = env.silent().on(handler).start().expect("the durations fit");
    let mut batch = messaging.batch("a");
    let headers = &mut batch.context().headers;
    headers.insert("traceparent".to_owned(), "00-1-2-01".to_owned());
    headers.insert("content-type".to_owned(), "text/plain".to_owned());
    let scope = &mut batch.context().scope;
    scope.insert("tenant".to_owned(), "acme".to_owned());
    let note = Note {
        from: "a".to_owned(),
        number: 1,
    };
    batch.send("a", &note).expect("it is small");
    messaging.commit(batch).await.expect("a commit");
    let first = contexts.recv().await.expect("the first");
    let second = contexts.recv().await.expect("the second");
    assert!(second.headers.into_keys().eq(["traceparent"]));
    assert_eq!(second.scope, first.scope);
    assert_eq!(second.scope["tenant"], "acme");
    messaging.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_can_send_to_itself() {
    let env = TestEnv::new().await;
    let messaging = env.messaging().start().expect("the durations fit");
    for number in 1..=3 {
        send(&messaging, "ann", &note("ann", number)).await.unwrap();
    }
    let lines = env.until_lines("ann", 3).await;
    assert_eq!(lines, ["ann 1", "ann 2", "ann 3"]);
    messaging.stop().await;
}

#[tokio::test(start_paused = true)]
async fn messages_arrive_once_and_in_order_between_clocks_ten_seconds_apart() {
    let env = TestEnv::new().await;
    let (behind, ahead) = (
        env.skewed(false).start().expect("the durations fit"),
        env.skewed(true).start().expect("the durations fit"),
    );
    // A message due for the process that is ahead is overdue for the process that is behind, so
    // both handle it.
    for number in 1..=6 {
        send(&behind, "bob", &note("ann", number)).await.unwrap();
    }
    let lines = env.until_lines("bob", 6).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(env.lines("bob").await, lines, "no message arrives twice");
    let expected: Vec<_> = (1..=6).map(|number| format!("ann {number}")).collect();
    assert_eq!(lines, expected);
    behind.stop().await;
    ahead.stop().await;
}

#[tokio::test(start_paused = true)]
async fn messages_of_one_batch_arrive_in_order_with_its_change_or_not_at_all() {
    let env = TestEnv::new().await;
    let messaging = env.messaging().start().expect("the durations fit");
    let diary = Diary {
        place: "ann".to_owned(),
        lines: Vec::new(),
    };
    for expected in [true, false] {
        let mut batch = messaging.batch("ann");
        batch.add(diary.create()).unwrap();
        for number in 1..=5 {
            batch.send("bob", &note("ann", number)).unwrap();
        }
        assert_eq!(messaging.commit(batch).await.is_ok(), expected);
    }
    let lines = env.until_lines("bob", 5).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(env.lines("bob").await, lines);
    assert_eq!(lines, ["ann 1", "ann 2", "ann 3", "ann 4", "ann 5"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_of_unknown_type_becomes_a_dead_letter_and_later_ones_are_received() {
    let env = TestEnv::new().await;
    let messaging = env.messaging().start().expect("the durations fit");
    let mut batch = messaging.batch("ann");
    batch.send("bob", &Unheard).unwrap();
    batch.send("bob", &note("ann", 1)).unwrap();
    messaging.commit(batch).await.unwrap();
    assert_eq!(env.until_lines("bob", 1).await, ["ann 1"]);
    let dead = first_dead_letter(&messaging).await;
    assert_eq!(dead.side, Side::Inbox);
    assert_eq!(dead.message_type, "unheard");
    assert_eq!(dead.payload, "null");
    assert!(dead.reason.contains("`unheard`"), "{}", dead.reason);
    messaging.stop().await;

    // A newer program knows the type, and the dead letter is redriven to it.
    let heard = Arc::new(AtomicBool::new(false));
    let flag = heard.clone();
    let newer = env.messaging().on(move |_: Received<Unheard>, batch| {
        flag.store(true, Ordering::SeqCst);
        async move { Ok(batch) }
    });
    let newer = newer.start().expect("the durations fit");
    newer.dead_letters().redrive(&dead).await.unwrap();
    eventually(async || heard.load(Ordering::SeqCst).then_some(())).await;
    assert_eq!(newer.dead_letters().count().await.unwrap(), 0);
    let again = newer.dead_letters().redrive(&dead).await;
    assert!(matches!(again, Err(OutboxError::Gone)), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_fails_or_panics_is_retried_until_the_limit() {
    let env = TestEnv::new().await;
    let asked = Arc::new(AtomicU32::new(0));
    let count = asked.clone();
    let patient = config().with_claims(Duration::from_secs(10), Duration::from_secs(10));
    let messaging = env.silent().config(patient);
    let messaging = messaging.on(move |note: Received<Note>, batch| {
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        async move {
            assert!(number != 2, "the second time");
            assert_eq!(note.attempt, number);
            if number < 4 {
                return Err(HandlerError::temporarily(format!("attempt {number}")));
            }
            Ok(batch)
        }
    });
    let messaging = messaging.start().expect("the durations fit");
    send(&messaging, "bob", &note("ann", 1)).await.unwrap();
    let dead = first_dead_letter(&messaging).await;
    assert_eq!(dead.reason, "attempt 3");
    let reasons: Vec<_> = dead
        .history
        .iter()
        .map(|attempt| &*attempt.reason)
        .collect();
    assert_eq!(
        reasons,
        [
            "attempt 1",
            "the handler panicked: the second time",
            "attempt 3"
        ]
    );
    assert_eq!(asked.load(Ordering::SeqCst), 3);

    let letters = messaging.dead_letters();
    let found = letters.get(&dead.partition, &dead.name).await.unwrap();
    assert_eq!(found.map(|letter| letter.id), Some(dead.id.clone()));
    letters.discard(&dead).await.unwrap();
    assert_eq!(letters.count().await.unwrap(), 0);
    let again = letters.discard(&dead).await;
    assert!(matches!(again, Err(OutboxError::Gone)), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn an_undeliverable_message_becomes_a_dead_letter_and_can_be_redriven() {
    let env = TestEnv::new().await;
    let lost = env.messaging().start().expect("the durations fit");
    let mut batch = lost.batch("ann");
    batch.send_to("hotel", 7_u32, &note("ann", 1)).unwrap();
    lost.commit(batch).await.unwrap();
    let dead = first_dead_letter(&lost).await;
    assert_eq!((dead.side, dead.history.len()), (Side::Outbox, 3));
    assert!(dead.reason.contains("no route"), "{}", dead.reason);
    lost.stop().await;

    let hotel = env.hotel.clone();
    let reception = Messaging::builder(hotel).config(config());
    let reception = reception.on(
        |note: Received<Note>, mut batch: OutboxBatch<Hotel>| async move {
            let noted = format!("{} {}", note.from.container, note.message.number);
            batch.add(Room { floor: 7, noted }.create())?;
            Ok(batch)
        },
    );
    let _reception = reception.start().expect("the durations fit");
    let found = env
        .messaging()
        .route(env.hotel.clone())
        .start()
        .expect("the durations fit");
    found.dead_letters().redrive(&dead).await.unwrap();
    let floor = cdb_model::PartitionKey::from(7_u32);
    let room = eventually(async || {
        let room = env.hotel.read(RoomKey::new().in_partition(&floor)).await;
        room.ok().flatten()
    });
    assert_eq!(room.await.document.noted, "house 1");
    assert_eq!(found.dead_letters().count().await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_too_large_is_refused_unsent() {
    let env = TestEnv::new().await;
    let messaging = env.silent().start().expect("the durations fit");
    let mut batch = messaging.batch("ann");
    let large = note(&"\"".repeat(1024 * 1024), 1);
    let error = batch.send("bob", &large).unwrap_err();
    assert!(error.to_string().contains("allowed"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_message_takes_eight_requests_from_its_commit_to_its_deletion() {
    let env = TestEnv::new().await;
    let emulator = or_skip!(&env.backend.emulator);
    let notes = Arc::new(AtomicU32::new(0));
    let count = notes.clone();
    let never = config()
        .with_poll_interval(Duration::from_secs(3_600))
        .with_claims(Duration::from_secs(60), Duration::from_secs(60));
    let messaging = env.silent().config(never);
    let messaging = messaging.on(move |_: Received<Note>, batch| {
        count.fetch_add(1, Ordering::SeqCst);
        async move { Ok(batch) }
    });
    let messaging = messaging.start().expect("the durations fit");
    let quiet = async |received| {
        eventually(async || (notes.load(Ordering::SeqCst) == received).then_some(())).await;
        eventually(async || {
            let before = emulator.requests().data_requests();
            tokio::time::sleep(Duration::from_millis(500)).await;
            (emulator.requests().data_requests() == before).then_some(())
        })
        .await;
    };
    send(&messaging, "bob", &note("ann", 1)).await.unwrap();
    quiet(1).await;
    emulator.reset_requests();
    send(&messaging, "bob", &note("ann", 2)).await.unwrap();
    quiet(2).await;
    assert_eq!(emulator.requests().data_requests(), 8);
}
