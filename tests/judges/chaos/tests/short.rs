//! The short form of the chaos run: a mix of failures, for some seconds.

use std::time::Duration;

use cdb_chaos::{Actors, Mix, Run, recovery, run, timers};
use tokio::sync::Mutex;

/// Each test starts several processes, so they run one after another.
static ALONE: Mutex<()> = Mutex::const_new(());

fn actors() -> Actors {
    Actors::ours(env!("CARGO_BIN_EXE_chaos"))
}

/// Whether the tests can set the clock of a process.
fn sets_clocks() -> bool {
    let linux = cfg!(target_os = "linux");
    if !linux {
        println!("skipped: the clock of a single process can be set on Linux only");
    }
    linux
}

/// Runs this number of orchestrations, `window` of them at once. Each ends once with the right
/// result, and its effects take place once.
async fn all_end_once(mix: &str, seed: u64, instances: usize, window: usize, effects: bool) {
    let _alone = ALONE.lock().await;
    let row = run(&Run {
        mix: Mix::named(mix).expect("it is on the list"),
        seed,
        instances,
        at_least: Duration::from_secs(10),
        window,
        effects,
        throughput: None,
        actors: actors(),
    })
    .await
    .expect("the processes start");
    let problems: Vec<&String> = row.verdict.problems().collect();
    assert!(problems.is_empty(), "{problems:#?}");
    assert!(row.broken > 0, "nothing was broken");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orchestrations_end_once_with_the_right_result_under_chaos() {
    all_end_once("everything", 1, 60, 40, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effects_of_transactional_activities_take_place_once_under_chaos() {
    all_end_once("everything", 2, 40, 20, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orchestrations_end_once_with_the_right_result_under_wrong_clocks() {
    if sets_clocks() {
        all_end_once("clocks", 1, 40, 40, false).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_fire_on_time_with_clocks_off_by_half_a_minute() {
    if !sets_clocks() {
        return;
    }
    let _alone = ALONE.lock().await;
    let (shortest, longest) = timers(&actors()).await.expect("the processes start");
    println!("between {shortest:?} and {longest:?}");
    // Timers of 0.3 s in all. By the machines' clocks they would fire at once on one machine, and
    // after 90 s on the other. A busy machine adds seconds.
    assert!(shortest >= Duration::from_millis(300), "{shortest:?}");
    assert!(longest < Duration::from_secs(80), "{longest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_of_a_killed_runtime_continues_when_its_locks_expire() {
    let _alone = ALONE.lock().await;
    // `cargo chaos --recovery` measures the delay; the suite checks the promise in simulated time
    // (several::a_prelocked_item_of_a_dead_runtime_is_found_by_another). This test checks only that
    // everything ends. On a busy machine the killed runtime may not have had any work.
    for _ in 0..10 {
        let seen = recovery(&actors()).await.expect("the processes start");
        if seen.delayed > 0 {
            return;
        }
    }
    panic!("the killed runtime never had work");
}
