//! Orchestrations on machines whose clocks are half a minute apart and are set while they work.

use std::time::Duration;

use cdb_chaos::{Actors, Mix, Run, run, timers};

fn actors() -> Actors {
    Actors::ours(env!("CARGO_BIN_EXE_chaos"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orchestrations_end_once_with_the_right_result_under_wrong_clocks() {
    if !cfg!(target_os = "linux") {
        println!("skipped: the clock of a single process can be set on Linux only");
        return;
    }
    let row = run(&Run {
        mix: Mix::named("clocks").expect("it is on the list"),
        seed: 1,
        instances: 40,
        at_least: Duration::from_secs(8),
        effects: false,
        window: 40,
        throughput: None,
        actors: actors(),
    })
    .await
    .expect("the processes start");
    let problems: Vec<&String> = row.verdict.problems().collect();
    assert!(problems.is_empty(), "{problems:#?}");
    assert!(row.broken > 0, "no clock was set");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_fire_on_time_with_clocks_off_by_half_a_minute() {
    if !cfg!(target_os = "linux") {
        println!("skipped: the clock of a single process can be set on Linux only");
        return;
    }
    let (shortest, longest) = timers(&actors()).await.expect("the processes start");
    println!("between {shortest:?} and {longest:?}");
    // Timers of 0.3 s in all. By the machines' clocks they would fire at once on one machine, and
    // after 90 s on the other. A busy machine adds seconds.
    assert!(shortest >= Duration::from_millis(300), "{shortest:?}");
    assert!(longest < Duration::from_secs(80), "{longest:?}");
}
