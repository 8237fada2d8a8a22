//! Acknowledgements, turns, faults and another runtime in random orders: each completion is received once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::{CosmosDBProvider, TreeScope};
use duroxide::providers::{Provider, TagFilter, WorkItem};
use tokio::time::sleep;

use super::stage::{INSTANCE, LOCK, Stage, commit_turn, received};
use crate::several::{enqueue, event};
use crate::work_items::completion_of;

const ACTIVITIES: u64 = 4;
const SEEDS: u64 = 20;
/// The locks of turns and activities, short so that lost ones are taken over soon.
const SHORT: Duration = Duration::from_secs(2);
const LIMIT: Duration = Duration::from_secs(120);

/// Numbers that a seed determines (xorshift).
#[derive(Clone)]
struct Numbers(u64);

impl Numbers {
    fn of(seed: u64, role: u64) -> Self {
        Self((seed * 1_000 + role + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    async fn pause(&mut self) {
        let millis = [0, 0, 1, 3, 10, 25, 700][usize::try_from(self.below(7)).unwrap_or(0)];
        sleep(Duration::from_millis(millis)).await;
    }
}

/// Runs turns, which take their time, and abandons some.
async fn dispatch(provider: CosmosDBProvider, mut numbers: Numbers, is_over: Arc<AtomicBool>) {
    while !is_over.load(Ordering::Relaxed) {
        let fetched = provider.fetch_orchestration_item(SHORT, Duration::from_millis(500), None);
        let Ok(Some((item, token, _))) = fetched.await else {
            continue;
        };
        numbers.pause().await;
        // An error has no consequence: the messages come again.
        if numbers.below(5) == 0 {
            let delay = Duration::from_millis(numbers.below(60));
            let _abandoned = provider
                .abandon_orchestration_item(&token, Some(delay), numbers.below(2) == 0)
                .await;
        } else {
            let _committed = commit_turn(&provider, &item, &token).await;
        }
    }
}

/// Runs activities, and drops some acknowledgements.
async fn work(provider: CosmosDBProvider, mut numbers: Numbers, is_over: Arc<AtomicBool>) {
    while !is_over.load(Ordering::Relaxed) {
        let fetched =
            provider.fetch_work_item(SHORT, Duration::from_millis(500), None, &TagFilter::Any);
        let Ok(Some((WorkItem::ActivityExecute { id, .. }, token, attempt))) = fetched.await else {
            continue;
        };
        numbers.pause().await;
        let done = completion_of(INSTANCE, id, format!("{id}, attempt {attempt}"));
        let ended = provider.ack_work_item(&token, Some(done));
        if numbers.below(6) == 0 {
            let _dropped =
                tokio::time::timeout(Duration::from_millis(numbers.below(8)), ended).await;
        } else if ended.await.is_err() && numbers.below(2) == 0 {
            let _abandoned = provider.abandon_work_item(&token, None, true).await;
        }
    }
}

/// Another process, which takes the instance now and then, and an operator.
async fn disturb(stage: &Stage, numbers: &mut Numbers) {
    let other = &stage.other;
    match numbers.below(5) {
        0 => {
            enqueue(other, event(INSTANCE)).await;
            let fetched = other.fetch_orchestration_item(SHORT, Duration::ZERO, None);
            if let Ok(Some((item, token, _))) = fetched.await {
                numbers.pause().await;
                let _committed = commit_turn(other, &item, &token).await;
            }
        }
        1 => {
            let _paused = other.pause(INSTANCE, TreeScope::Alone, "ada").await;
            numbers.pause().await;
            let resumed = other.resume(INSTANCE, TreeScope::Alone).await;
            resumed.expect("the operator repeats it");
        }
        2 | 3 => {
            let effects = [
                Effect::DropAnswer,
                Effect::DropRequest,
                Effect::error(503, 0),
            ];
            let effect = effects[usize::try_from(numbers.below(3)).unwrap_or(0)].clone();
            let fault = Fault::with_probability(effect, 0.4).on(OperationKind::Batch);
            stage.emulator().inject(fault);
            numbers.pause().await;
            stage.emulator().clear_faults();
        }
        _ => {}
    }
}

async fn each_completion_is_received_once(seed: u64) -> Option<()> {
    let stage = Stage::with_activities(ACTIVITIES).await?;
    let is_over = Arc::new(AtomicBool::new(false));
    let tasks = (0..4).map(|role| {
        let (provider, numbers) = (stage.provider.clone(), Numbers::of(seed, role));
        let is_over = is_over.clone();
        if role < 2 {
            tokio::spawn(dispatch(provider, numbers, is_over))
        } else {
            tokio::spawn(work(provider, numbers, is_over))
        }
    });
    let tasks: Vec<_> = tasks.collect();
    let mut numbers = Numbers::of(seed, 9);
    for _ in 0..6 {
        numbers.pause().await;
        disturb(&stage, &mut numbers).await;
    }
    let begun = tokio::time::Instant::now();
    loop {
        let received = received(&stage.other, INSTANCE).await;
        let counts: Vec<u64> = received.values().copied().collect();
        assert!(
            counts.iter().all(|count| *count == 1),
            "seed {seed}: {received:?}"
        );
        if received.len() as u64 == ACTIVITIES {
            break;
        }
        assert!(begun.elapsed() < LIMIT, "seed {seed}: only {received:?}");
        sleep(Duration::from_millis(250)).await;
    }
    is_over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.expect("no panic");
    }
    // Every lock has expired, and every message was received.
    sleep(LOCK * 2).await;
    assert_eq!(stage.activities().await, 0, "seed {seed}");
    let left: Vec<_> = stage.messages().await;
    let left: Vec<_> = left
        .iter()
        .map(|it| it.document.work_item.header())
        .collect();
    assert!(
        left.iter().all(|text| !text.contains("ActivityCompleted")),
        "seed {seed}: {left:?}"
    );
    stage.backend.stop().await;
    Some(())
}

#[tokio::test(start_paused = true)]
async fn each_completion_is_received_once_whatever_happens() {
    for seed in 0..SEEDS {
        or_skip!(each_completion_is_received_once(seed).await);
    }
}
