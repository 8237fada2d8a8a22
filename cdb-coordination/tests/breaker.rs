//! Attempts to break the promises about dead letters and counted writes. Time is simulated.

#[path = "backend/mod.rs"]
mod backend;
#[allow(dead_code)]
#[path = "messaging/house.rs"]
mod house;

use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_coordination::{
    DeadLetter, DeadLetters, Failed, MessagingConfig, OutboxBatch, OutboxError, Received, Store,
};
use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_model::{Document, Timestamp};
use futures::future::join_all;

use crate::house::{House, Note, Noted, NotedKey, TestEnv, note_down, send};

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Told {
    Done,
    Gone,
    NotDone,
    Unknown,
}

fn told(answer: Result<(), OutboxError>) -> Told {
    match answer {
        Ok(()) => Told::Done,
        Err(OutboxError::Gone) => Told::Gone,
        Err(OutboxError::Undecided) => Told::Unknown,
        Err(OutboxError::Failed(error)) if error.is_ambiguous() => Told::Unknown,
        Err(_) => Told::NotDone,
    }
}

fn letters_of(env: &TestEnv) -> DeadLetters<House> {
    let house = env.backend.database().container("house");
    DeadLetters::new(house, MessagingConfig::default())
}

async fn two_operators(seed: u64) {
    let random = &mut Random(seed);
    let env = TestEnv::start(1).await;
    let refuse = |_: Received<Note>, _: OutboxBatch<House>| async {
        Err::<OutboxBatch<House>, _>(Failed::permanently("no"))
    };
    let messaging = env.messaging().on(refuse).start().expect("it starts");
    send(&messaging, &["bob"], 1..2).await;
    let judge = letters_of(&env);
    while judge.count().await.expect("a query") == 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    messaging.stop().await;
    let letter = judge.list(Timestamp::default(), 9).await.unwrap().remove(0);
    let emulator = env.backend.emulator.as_ref().unwrap();
    let late = Duration::from_millis(random.below(15_000));
    for effect in [
        Effect::DropRequest,
        Effect::DropAnswer,
        Effect::StatusAfterEffect { status: 503 },
        Effect::StatusAfterEffect { status: 408 },
        Effect::Delay(late.into()),
    ] {
        let share = [0.0, 0.2, 0.5][usize::try_from(random.below(3)).unwrap()];
        if share > 0.0 {
            let fault = Fault::with_probability(effect, share);
            emulator.inject(if random.below(2) == 0 {
                fault
            } else {
                fault.on(OperationKind::Batch).on(OperationKind::Delete)
            });
        }
    }
    emulator.change(|settings| settings.seed(seed)).unwrap();
    // A receiver may take the redriven message at once.
    let early = (random.below(2) == 0).then(|| {
        let receives =
            async |pay: Received<Note>, batch: OutboxBatch<House>| note_down(&pay.message, batch);
        env.messaging().on(receives).start().expect("it starts")
    });
    let act = |redrives: bool, after: u64| {
        let operator = letters_of(&env);
        let letter: DeadLetter = letter.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(after)).await;
            let answer = if redrives {
                operator.redrive(&letter).await
            } else {
                operator.discard(&letter).await
            };
            (redrives, told(answer))
        }
    };
    let plans: Vec<_> = (0..2 + random.below(2))
        .map(|_| (random.below(2) == 0, random.below(2) * random.below(9000)))
        .collect();
    let told = join_all(plans.iter().map(|(redrives, after)| act(*redrives, *after))).await;
    emulator.clear_faults();
    tokio::time::sleep(Duration::from_secs(120)).await;
    let receives =
        async |pay: Received<Note>, batch: OutboxBatch<House>| note_down(&pay.message, batch);
    let second = env.messaging().on(receives).start().expect("it starts");
    second.until_idle().await.expect("idle");
    tokio::time::sleep(Duration::from_secs(60)).await;
    second.until_idle().await.expect("idle");
    let noted = env.noted().await.len();
    let left = judge.count().await.unwrap();
    let what = format!("seed {seed}: {plans:?} {told:?}, noted {noted}, letters {left}");
    let done = told.iter().filter(|(_, told)| *told == Told::Done).count();
    let unknown = told
        .iter()
        .filter(|(_, told)| *told == Told::Unknown)
        .count();
    let gone = told.iter().filter(|(_, told)| *told == Told::Gone).count();
    if done + unknown == 0
        && gone > 0
        && left == 0
        && noted == 0
        && plans.iter().any(|(redrives, _)| !redrives)
    {
        println!("nobody discarded it: {what}");
        return;
    }
    assert!(done <= 1, "two took effect: {what}");
    if told.contains(&(true, Told::Done)) {
        assert!(noted == 1 && left == 0, "not redriven: {what}");
    }
    if told.contains(&(false, Told::Done)) {
        assert!(noted == 0 && left == 0, "not discarded: {what}");
    }
    if done + unknown == 0 {
        assert!(
            gone == 0 && noted == 0 && left == 1,
            "nobody took it: {what}"
        );
    }
    if left == 1 {
        assert!(gone == 0 && done == 0, "it is not gone: {what}");
    }
    if noted == 1 {
        let could = told
            .iter()
            .any(|(redrives, told)| *redrives && matches!(told, Told::Done | Told::Unknown));
        assert!(could, "who redrove it? {what}");
    }
    if let Some(early) = early {
        early.stop().await;
    }
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn breaker_operators_of_a_dead_letter_are_told_the_truth() {
    let from: u64 = std::env::var("SEED").map_or(0, |seed| seed.parse().unwrap());
    let count: u64 = std::env::var("COUNT").map_or(12, |seed| seed.parse().unwrap());
    for seed in from..from + count {
        two_operators(seed).await;
    }
}

/// Writers that raise a number by different means at once; all content is equal.
async fn mixed(seed: u64) {
    let random = &mut Random(seed);
    let env = TestEnv::start(1).await;
    let emulator = env.backend.emulator.as_ref().unwrap();
    let place = ["bob", "a::b", "a/b#c?d", "\u{1F600}"][usize::try_from(random.below(4)).unwrap()];
    let new = Noted {
        place: place.to_owned(),
        number: 0,
    };
    let _ = &new;
    for effect in [
        Effect::DropRequest,
        Effect::DropAnswer,
        Effect::StatusAfterEffect { status: 500 },
        Effect::StatusAfterEffect { status: 503 },
        Effect::Delay(Duration::from_millis(random.below(30_000)).into()),
    ] {
        let share = [0.0, 0.1, 0.4][usize::try_from(random.below(3)).unwrap()];
        if share > 0.0 {
            emulator.inject(Fault::with_probability(effect, share));
        }
    }
    emulator.change(|settings| settings.seed(seed)).unwrap();
    // Several create the same document, by `create_if_missing`, by a store, or by both.
    let kinds = random.below(3);
    let writers = (0..4).map(|writer| {
        let house: ContainerClient<House> = env.backend.database().container("house");
        let document = new.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(writer * 700)).await;
            if kinds == 0 || (kinds == 1 && writer % 2 == 0) {
                match house.create_if_missing(&document).await {
                    Ok(Some(_)) => Told::Done,
                    Ok(None) => Told::Gone,
                    Err(error) if error.is_ambiguous() => Told::Unknown,
                    Err(_) => Told::NotDone,
                }
            } else {
                match Store::new(&house).run(document.create()).await {
                    Ok(_) => Told::Done,
                    Err(error) if error.is_ambiguous() => Told::Unknown,
                    Err(error) if error.is_conflict() => Told::Gone,
                    Err(_) => Told::NotDone,
                }
            }
        }
    });
    let told = join_all(writers).await;
    emulator.clear_faults();
    tokio::time::sleep(Duration::from_secs(120)).await;
    let key = NotedKey::new(place, 0);
    let stored = env.house.latest_committed().read(&key).await.unwrap();
    let what = format!(
        "seed {seed}, kinds {kinds}: {told:?}, stored {}",
        stored.is_some()
    );
    let count = |wanted| told.iter().filter(|told| **told == wanted).count();
    assert!(count(Told::Done) <= 1, "{what}");
    assert!(count(Told::Done) == 0 || stored.is_some(), "{what}");
    assert!(count(Told::Gone) == 0 || stored.is_some(), "{what}");
    // `create_if_missing` says that the document existed, although an earlier attempt of it created it.
    let stores = kinds == 2;
    assert!(
        !stores || count(Told::Done) + count(Told::Unknown) > 0 || stored.is_none(),
        "{what}"
    );
}

#[tokio::test(start_paused = true)]
async fn breaker_creations_by_different_means_add_up() {
    let from: u64 = std::env::var("SEED").map_or(0, |seed| seed.parse().unwrap());
    let count: u64 = std::env::var("COUNT").map_or(10, |seed| seed.parse().unwrap());
    for seed in from..from + count {
        mixed(seed).await;
    }
}

/// A letter that a handler has refused.
async fn dead_letter(env: &TestEnv) -> (DeadLetters<House>, DeadLetter) {
    let refuse = |_: Received<Note>, _: OutboxBatch<House>| async {
        Err::<OutboxBatch<House>, _>(Failed::permanently("no"))
    };
    let messaging = env.messaging().on(refuse).start().expect("it starts");
    send(&messaging, &["bob"], 1..2).await;
    let letters = letters_of(env);
    while letters.count().await.expect("a query") == 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    messaging.stop().await;
    let letter = letters
        .list(Timestamp::default(), 9)
        .await
        .unwrap()
        .remove(0);
    (letters, letter)
}

#[tokio::test(start_paused = true)]
#[ignore = "violation: `Gone`, without another operator"]
async fn breaker_a_discard_with_a_lost_answer_is_not_reported_as_that_of_another() {
    for effect in [
        Effect::DropAnswer,
        Effect::StatusAfterEffect { status: 408 },
        Effect::StatusAfterEffect { status: 503 },
    ] {
        let env = TestEnv::start(1).await;
        let (letters, letter) = dead_letter(&env).await;
        let emulator = env.backend.emulator.as_ref().unwrap();
        emulator.inject(Fault::once(effect.clone()).on(OperationKind::Delete));
        let told = letters.discard(&letter).await;
        println!("{effect:?}: {told:?}");
        assert!(
            !matches!(told, Err(OutboxError::Gone)),
            "{effect:?}: there is no other operator: {told:?}"
        );
    }
}
