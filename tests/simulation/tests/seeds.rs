//! The command `cargo simulate` on fixed seeds.
#![cfg(target_os = "linux")]

use std::process::Command;

/// Runs the command and returns its report.
fn simulate(args: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simulate"));
    let output = command
        .args(args.split(' '))
        .output()
        .expect("the program starts");
    let report = String::from_utf8_lossy(&output.stdout);
    let progress = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args}: {progress}{report}");
}

#[test]
fn the_same_seed_gives_the_same_trace_in_another_process() {
    simulate("--seeds 6 --days 0.003 --twice");
}

/// Seeds that have found a fault, and what each found.
#[test]
fn clusters_survive_the_faults_of_known_seeds() {
    // Without the reconciler, messages of killed nodes are never delivered.
    simulate("--from 4 --seeds 4 --days 0.005");
}
