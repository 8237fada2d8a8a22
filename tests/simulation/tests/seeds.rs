//! The simulation itself: the same seed gives the same run, and the seeds of the regression corpus
//! are good.

use std::process::{Command, Output};

/// Runs the command in a process of its own.
fn simulate(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simulate"));
    command.args(args).output().expect("the program starts")
}

/// The outcome of a seed as JSON.
fn outcome(seed: u64, days: &str) -> String {
    let seed = seed.to_string();
    let output = simulate(&["--json", "--seed", &seed, "--days", days]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "seed {seed}: {errors}");
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    text.lines().last().expect("an outcome").to_owned()
}

/// Ten minutes of fifty clusters, each in two processes.
#[test]
fn the_same_seed_gives_the_same_run_in_another_process() {
    for seed in 1..=50 {
        let first = outcome(seed, "0.003");
        assert_eq!(first, outcome(seed, "0.003"), "seed {seed}");
    }
}
