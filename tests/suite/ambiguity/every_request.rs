//! Fails each request of a scenario, one per run: the first run loses the answer to its first
//! write, the second run the answer to its second write, and so on.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cdb_emulator::{Effect, Emulator, Fault, OperationKind};
use cdb_tests::audit;
use duroxide::providers::Provider;
use futures::StreamExt;

use super::scenario::{Runs, Scenario, runtime};
use crate::harness::{TestEnv, Wait};
use crate::network::WRITES;

/// Concurrent runs: they wait more than they compute.
const AT_ONCE: usize = 6;

/// The most reads of a scenario that fail, one per run: later reads are polls.
const MOST_READS: u32 = 16;

/// How long no request may be sent after a run until it counts as finished.
const QUIET: Duration = Duration::from_millis(20);

/// All reads.
const READS: [OperationKind; 2] = [OperationKind::Read, OperationKind::Query];

fn emulator(env: &TestEnv) -> &Emulator {
    env.emulator().expect("checked before")
}

/// The duration of the runtime's locks. A run waits until a lost lock expires.
const LOCK: Duration = Duration::from_secs(10);

/// The duration of locks where the test counts runs: longer than a machine may stall.
const LONG_LOCK: Duration = Duration::from_secs(120);

/// Plays the scenario once, with `fault` if there is one. Returns how many writes and reads it
/// took.
async fn run(scenario: Scenario, fault: Option<Fault>) -> Option<[u32; 2]> {
    let (mut counts, mut ran) = play(scenario, fault.clone(), LOCK).await?;
    let expected = scenario.runs().unwrap_or(ran);
    if ran != expected {
        // On a machine that stalls for ten seconds a lock expires, and the activity correctly runs
        // again.
        (counts, ran) = play(scenario, fault.clone(), LONG_LOCK).await?;
    }
    assert_eq!(
        ran, expected,
        "{scenario:?} with {fault:?}: no activity runs twice"
    );
    Some(counts)
}

/// Plays the scenario once. Returns how many writes and reads it took, and how many activities ran.
async fn play(
    scenario: Scenario,
    fault: Option<Fault>,
    lock: Duration,
) -> Option<([u32; 2], usize)> {
    let mut env = TestEnv::without_runtime().await;
    if env.emulator().is_none() {
        println!("skipped: only the emulator fails on demand");
        env.stop().await;
        return None;
    }
    let runs: Runs = Arc::default();
    runtime(&mut env, &runs, lock).await;
    emulator(&env).reset_requests();
    let what = format!("{scenario:?} with {fault:?}");
    if let Some(fault) = fault {
        emulator(&env).inject(fault);
    }
    scenario.play(&env).await;
    tokio::time::sleep(QUIET).await;
    let counts = emulator(&env).requests().counts;
    emulator(&env).clear_faults();
    until_clean(&env, &what).await;
    env.stop().await;
    let count = |kinds: &[OperationKind]| {
        let counts = kinds.iter().map(|kind| counts.get(kind).copied());
        let sum: u64 = counts.map(Option::unwrap_or_default).sum();
        u32::try_from(sum).unwrap_or(u32::MAX)
    };
    let counts = [count(WRITES), count(&READS)];
    Some((counts, runs.load(Ordering::Relaxed)))
}

/// Waits until no document is pending, sessions included.
async fn until_clean(env: &TestEnv, what: &str) {
    let mut wait = Wait::begin();
    loop {
        let problems = audit(env.provider.container()).await;
        let problems = problems.expect("the store can be read");
        if problems.is_empty() {
            break;
        }
        assert!(!wait.is_over(), "{what}: {problems:#?}");
        tokio::time::sleep(QUIET).await;
    }
    let cleaned = env.provider.cleanup_orphaned_sessions(Duration::ZERO);
    cleaned.await.expect("sessions can be cleaned up");
}

/// Runs the scenario once per write that loses its answer, and once per other fault.
async fn fail_each_request(scenario: Scenario) {
    let [writes, reads] = or_skip!(run(scenario, None).await);
    let on = |effect: Effect, kinds: &[OperationKind]| {
        let fault = Fault::once(effect);
        kinds.iter().fold(fault, |fault, kind| fault.on(*kind))
    };
    // A run with a fault may take a few more requests.
    let (writes, reads) = (writes + 2, (reads + 2).min(MOST_READS));
    let lost = |n| on(Effect::DropAnswer, WRITES).after(n);
    let never_sent = |n| on(Effect::DropRequest, WRITES).after(n);
    let refused_late = |n| on(Effect::StatusAfterEffect { status: 503 }, WRITES).after(n);
    let unread = |n| on(Effect::DropRequest, &READS).after(n);
    let faults = (0..writes)
        .flat_map(|n| [lost(n), never_sent(n), refused_late(n)])
        .chain((0..reads).map(unread));
    let runs = futures::stream::iter(faults)
        .map(|fault| run(scenario, Some(fault)))
        .buffer_unordered(AT_ONCE);
    let count = runs.count().await;
    println!("{scenario:?}: {writes} writes and {reads} reads failed in {count} runs");
}

macro_rules! scenarios {
    ($($name:ident: $scenario:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                fail_each_request(Scenario::$scenario).await;
            }
        )*
    };
}

scenarios! {
    an_activity_survives_every_fault: Hello,
    a_fan_out_survives_every_fault: FanOut,
    children_survive_every_fault: Parent,
    further_executions_and_their_pruning_survive_every_fault: Again,
    an_event_survives_every_fault: Event,
    queued_events_survive_every_fault: Queue,
    a_cancellation_survives_every_fault: Cancel,
    a_session_survives_every_fault: Session,
    a_key_value_store_survives_every_fault: KeyValue,
    a_timer_survives_every_fault: Timer,
    a_detached_orchestration_survives_every_fault: Detached,
    a_deletion_survives_every_fault: Delete,
    a_forced_deletion_of_a_tree_survives_every_fault: ForcedDelete,
    a_pause_of_a_tree_survives_every_fault: Pause,
}
