//! The command `cargo simulate` on fixed seeds.
#![cfg(target_os = "linux")]

use std::process::Command;

/// Runs the command and returns its report.
fn simulate(args: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simulate"));
    let output = command
        .args(args.split(' '))
        .output()
        .expect("the program starts");
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    let progress = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args}: {progress}{report}");
    report
}

#[test]
fn the_same_seed_gives_the_same_trace_in_another_process() {
    simulate("--seeds 10 --days 0.003 --twice");
}

#[test]
fn clusters_survive_their_faults() {
    simulate("--from 100 --seeds 4 --days 0.02");
}
