//! The short form: everything at once, for half a minute.

use std::time::Duration;

use cdb_chaos::{Cast, LOCK, Mix, Run, recovery, run};

fn cast() -> Cast {
    Cast::ours(env!("CARGO_BIN_EXE_chaos"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_broken_every_orchestration_ends_once_with_the_right_result() {
    let mix = Mix::named("everything").expect("it is on the list");
    let row = run(&Run {
        mix,
        seed: 1,
        instances: 60,
        at_least: Duration::from_secs(12),
        window: 40,
        throughput: None,
        cast: cast(),
    })
    .await
    .expect("the processes start");
    let problems: Vec<&String> = row.verdict.problems().collect();
    assert!(problems.is_empty(), "{problems:#?}");
    assert!(row.broken > 0, "nothing was broken");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_work_of_a_killed_runtime_goes_on_when_its_locks_end() {
    let seen = recovery(&cast()).await.expect("the processes start");
    assert!(seen.stood_still > 0, "the killed runtime had work");
    // The promise is a second more than a lock lasts; `cargo chaos --recovery` measures it. Here other tests run beside.
    assert!(seen.longest < LOCK * 3, "{seen:?}");
}
