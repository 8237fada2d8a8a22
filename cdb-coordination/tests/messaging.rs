//! Outbox and inbox from outside: order, dead letters, what goes wrong on purpose.

mod backend;
mod skewed;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use backend::Backend;
use cdb_client::{Bootstrap, ContainerClient, SimulatedTime};
use cdb_coordination::{
    DeadLetter, Failed, Handled, Message, MessageDocument, Messaging, MessagingBuilder,
    MessagingConfig, OutboxBatch, OutboxError, Received, RetryPolicy, Side,
};
use cdb_emulator::{Effect, Fault};
use cdb_model::{Container, Document, Timestamp};
use serde::{Deserialize, Serialize};
use skewed::Skewed;

/// What a partition has received, in the order in which it was.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "diary", id = "{place}:diary")]
struct Diary {
    #[document(partition_key)]
    place: String,
    lines: Vec<String>,
}

#[derive(Container)]
#[container(partition_key = "/place")]
enum House {
    Diary(Diary),
    Message(MessageDocument<House>),
}

/// Another container, with another partition key.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "room", id = "room")]
struct Room {
    #[document(partition_key)]
    floor: u32,
    noted: String,
}

#[derive(Container)]
#[container(partition_key = "/floor", discriminator = "what")]
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

struct World {
    backend: Backend,
    house: ContainerClient<House>,
    hotel: ContainerClient<Hotel>,
}

impl World {
    async fn new() -> Self {
        let backend = Backend::start(1, Some(SimulatedTime::new())).await;
        let database = backend.database();
        let house = database.bootstrap("house", Bootstrap::CreateIfMissing);
        let house = house.await.expect("a container");
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

    /// A messaging that notes what it receives.
    fn messaging(&self) -> MessagingBuilder<House> {
        Self::messaging_on(&self.house)
    }

    fn messaging_on(house: &ContainerClient<House>) -> MessagingBuilder<House> {
        let notes = house.clone();
        Messaging::builder(house.clone())
            .config(config())
            .on(move |note, batch| note_down(notes.clone(), note, batch))
    }

    /// A messaging whose clock is ten seconds ahead, or behind.
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
        assert!(tokio::time::Instant::now() < deadline, "it did not happen");
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
        [cdb_model::PartitionKeyValue::String(place)] => place.clone(),
        other => return Err(Failed::permanently(format!("{other:?}"))),
    };
    let line = format!("{} {}", note.message.from, note.message.number);
    if let Some(mut diary) = house.read(&DiaryKey::new(&*to)).await? {
        diary.document.lines.push(line);
        batch.changes().replace_stored(&diary)?;
    } else {
        let lines = vec![line];
        batch.changes().create(&Diary { place: to, lines })?;
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

/// Sends until it is sent. An outcome that stays open would have to be looked up, and must not come from a lost answer.
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
    let world = World::new().await;
    let Some(emulator) = &world.backend.emulator else {
        return;
    };
    let (first, second) = (world.messaging().start(), world.messaging().start());
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
        sender.await.expect("all of them can be sent");
    }
    let lines = world.until_lines("zoe", 3 * 12).await;
    emulator.clear_faults();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(world.lines("zoe").await, lines, "nothing comes again");
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
async fn a_partition_can_write_to_itself() {
    let world = World::new().await;
    let messaging = world.messaging().start();
    for number in 1..=3 {
        send(&messaging, "ann", &note("ann", number)).await.unwrap();
    }
    let lines = world.until_lines("ann", 3).await;
    assert_eq!(lines, ["ann 1", "ann 2", "ann 3"]);
    messaging.stop().await;
}

#[tokio::test(start_paused = true)]
async fn messages_arrive_once_and_in_order_between_clocks_ten_seconds_apart() {
    let world = World::new().await;
    let (behind, ahead) = (world.skewed(false).start(), world.skewed(true).start());
    // What is due for one of them is long overdue for the other, so both are at it.
    for number in 1..=6 {
        send(&behind, "bob", &note("ann", number)).await.unwrap();
    }
    let lines = world.until_lines("bob", 6).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(world.lines("bob").await, lines, "nothing comes again");
    let expected: Vec<_> = (1..=6).map(|number| format!("ann {number}")).collect();
    assert_eq!(lines, expected);
    behind.stop().await;
    ahead.stop().await;
}

#[tokio::test(start_paused = true)]
async fn messages_of_one_draft_arrive_in_its_order_and_with_its_change_or_not_at_all() {
    let world = World::new().await;
    let messaging = world.messaging().start();
    let diary = Diary {
        place: "ann".to_owned(),
        lines: Vec::new(),
    };
    for expected in [true, false] {
        let mut batch = messaging.batch("ann");
        batch.changes().create(&diary).unwrap();
        for number in 1..=5 {
            batch.send("bob", &note("ann", number)).unwrap();
        }
        assert_eq!(messaging.commit(batch).await.is_ok(), expected);
    }
    let lines = world.until_lines("bob", 5).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(world.lines("bob").await, lines);
    assert_eq!(lines, ["ann 1", "ann 2", "ann 3", "ann 4", "ann 5"]);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_type_is_kept_and_what_follows_is_received() {
    let world = World::new().await;
    let messaging = world.messaging().start();
    let mut batch = messaging.batch("ann");
    batch.send("bob", &Unheard).unwrap();
    batch.send("bob", &note("ann", 1)).unwrap();
    messaging.commit(batch).await.unwrap();
    assert_eq!(world.until_lines("bob", 1).await, ["ann 1"]);
    let dead = first_dead_letter(&messaging).await;
    assert_eq!(dead.side, Side::Inbox);
    assert_eq!(dead.message_type, "unheard");
    assert_eq!(dead.payload, "null");
    assert!(dead.reason.contains("`unheard`"), "{}", dead.reason);
    messaging.stop().await;

    // A program that knows the type comes, and the letter is redriven to it.
    let heard = Arc::new(AtomicBool::new(false));
    let flag = heard.clone();
    let newer = world.messaging().on(move |_: Received<Unheard>, batch| {
        flag.store(true, Ordering::SeqCst);
        async move { Ok(batch) }
    });
    let newer = newer.start();
    newer.dead_letters().redrive(&dead).await.unwrap();
    eventually(async || heard.load(Ordering::SeqCst).then_some(())).await;
    assert_eq!(newer.dead_letters().count().await.unwrap(), 0);
    let again = newer.dead_letters().redrive(&dead).await;
    assert!(matches!(again, Err(OutboxError::Gone)), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_fails_or_panics_is_asked_again_and_then_no_more() {
    let world = World::new().await;
    let asked = Arc::new(AtomicU32::new(0));
    let count = asked.clone();
    let patient = config().with_claims(Duration::from_secs(10), Duration::from_secs(10));
    let messaging = world.silent().config(patient);
    let messaging = messaging.on(move |note: Received<Note>, batch| {
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        async move {
            assert!(number != 2, "the second time");
            assert_eq!(note.attempt, number);
            if number < 4 {
                return Err(Failed::temporarily(format!("attempt {number}")));
            }
            Ok(batch)
        }
    });
    let messaging = messaging.start();
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
async fn what_cannot_be_delivered_is_given_up_and_can_be_sent_again() {
    let world = World::new().await;
    let lost = world.messaging().start();
    let mut batch = lost.batch("ann");
    batch.send_to("hotel", 7_u32, &note("ann", 1)).unwrap();
    lost.commit(batch).await.unwrap();
    let dead = first_dead_letter(&lost).await;
    assert_eq!((dead.side, dead.history.len()), (Side::Outbox, 3));
    assert!(dead.reason.contains("no route"), "{}", dead.reason);
    lost.stop().await;

    let hotel = world.hotel.clone();
    let reception = Messaging::builder(hotel).config(config());
    let reception = reception.on(
        |note: Received<Note>, mut batch: OutboxBatch<Hotel>| async move {
            let noted = format!("{} {}", note.from.container, note.message.number);
            batch.changes().create(&Room { floor: 7, noted })?;
            Ok(batch)
        },
    );
    let _reception = reception.start();
    let found = world.messaging().route(world.hotel.clone()).start();
    found.dead_letters().redrive(&dead).await.unwrap();
    let floor = cdb_model::PartitionKey::from(7_u32);
    let room = eventually(async || {
        let room = world.hotel.read_in(&floor, &RoomKey::new()).await;
        room.ok().flatten()
    });
    assert_eq!(room.await.document.noted, "house 1");
    assert_eq!(found.dead_letters().count().await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_too_large_is_refused_before_anything_is_written() {
    let world = World::new().await;
    let messaging = world.silent().start();
    let mut batch = messaging.batch("ann");
    let large = note(&"\"".repeat(1024 * 1024), 1);
    let error = batch.send("bob", &large).unwrap_err();
    assert!(error.to_string().contains("a message takes"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_message_takes_eight_requests_from_its_draft_to_its_last_trace() {
    let world = World::new().await;
    let Some(emulator) = &world.backend.emulator else {
        return;
    };
    let notes = Arc::new(AtomicU32::new(0));
    let count = notes.clone();
    let never = config()
        .with_poll_interval(Duration::from_secs(3_600))
        .with_claims(Duration::from_secs(60), Duration::from_secs(60));
    let messaging = world.silent().config(never);
    let messaging = messaging.on(move |_: Received<Note>, batch| {
        count.fetch_add(1, Ordering::SeqCst);
        async move { Ok(batch) }
    });
    let messaging = messaging.start();
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
