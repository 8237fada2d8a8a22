//! The short form of the chaos run: all failures at once, for half a minute.

use std::time::Duration;

use cdb_chaos::{Actors, Mix, Run, recovery, run};
use tokio::sync::Mutex;

/// Each test starts several processes, so they run one after another.
static ALONE: Mutex<()> = Mutex::const_new(());

fn actors() -> Actors {
    Actors::ours(env!("CARGO_BIN_EXE_chaos"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orchestrations_end_once_with_the_right_result_under_chaos() {
    let _alone = ALONE.lock().await;
    let mix = Mix::named("everything").expect("it is on the list");
    let row = run(&Run {
        mix,
        seed: 1,
        instances: 60,
        at_least: Duration::from_secs(12),
        window: 40,
        effects: false,
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
async fn effects_of_transactional_activities_take_place_once_under_chaos() {
    let _alone = ALONE.lock().await;
    let mix = Mix::named("everything").expect("it is on the list");
    let row = run(&Run {
        mix,
        seed: 2,
        instances: 40,
        at_least: Duration::from_secs(8),
        window: 20,
        effects: true,
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
