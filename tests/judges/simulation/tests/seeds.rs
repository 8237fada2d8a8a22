//! The command `cargo simulate` on fixed seeds.
#![cfg(target_os = "linux")]

use std::path::PathBuf;
use std::process::Command;

use cdb_judge::{Record, judge};

/// Runs the command. Returns whether it succeeded, and its progress and report.
fn run(args: &str) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simulate"));
    let output = command
        .args(args.split(' '))
        .output()
        .expect("the program starts");
    let report = String::from_utf8_lossy(&output.stdout);
    let progress = String::from_utf8_lossy(&output.stderr);
    (output.status.success(), format!("{progress}{report}"))
}

/// Runs the command, which must succeed.
fn simulate(args: &str) {
    let (succeeded, report) = run(args);
    assert!(succeeded, "{args}: {report}");
}

/// Runs the command, which must succeed, and judges what it recorded by the promises alone.
fn simulate_and_judge(args: &str) {
    let folder = format!("cdb-simulated-{}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    simulate(&format!("{args} --record {}", folder.display()));
    let files = std::fs::read_dir(&folder).expect("the run has recorded");
    let files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    let record = Record::read(&files, 0).expect("records can be read");
    assert!(record.calls() > 1_000, "{args}: {} calls", record.calls());
    let verdict = judge(&record);
    let text = verdict.text(&record, 10);
    assert!(verdict.anomalies.is_empty(), "{args}: {text}");
    std::fs::remove_dir_all(folder).expect("the records can be deleted");
}

#[test]
fn a_seed_without_progress_fails_with_its_last_requests_and_its_command() {
    let ends = [
        ("spinning", 5, "stands still"),
        ("waiting", 60, "has not ended"),
    ];
    for (hang, stall, problem) in ends {
        let args = format!("--days 0.001 --only delays --hang {hang}");
        let (succeeded, report) = run(&format!("--from 11 --seeds 1 --stall {stall} {args}"));
        assert!(!succeeded, "{report}");
        let requests = report.lines().filter(|line| line.contains("  POST /dbs/"));
        assert!(requests.count() > 50, "{report}");
        let command = format!("cargo simulate --seed 11 {args}");
        for expected in [problem, &command] {
            assert!(report.contains(expected), "{expected}: {report}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_in_another_process() {
    // All workloads together take minutes in a debug build.
    simulate("--seeds 3 --days 0.003 --only waves --twice");
}

/// Seeds that have found a fault of the provider, and what each found. With those below in two tests, because a seed takes
/// one processor.
#[test]
fn orchestrations_survive_the_faults_of_known_seeds() {
    // Without the reconciler, messages of killed nodes are never delivered.
    simulate_and_judge("--from 4 --seeds 1 --days 0.005 --only waves");
    // Without a delivery before the deletion, a detached child of a deleted parent never starts.
    simulate_and_judge("--from 5 --seeds 1 --days 0.01 --only detached");
    // Without the permits, each node runs as many activities as the limit permits.
    simulate("--from 3 --seeds 1 --days 0.02 --only limited");
    // Without the wait for its start, queued events of a child that has not started are deleted.
    simulate("--from 1 --seeds 1 --days 0.008 --only conserved");
    // Without those whose writes overlap a load, a turn takes events before earlier ones.
    simulate("--seed 780002 --days 0.002 --only conserved");
    // Without a mark in each write, an equal write of another node counts as this one's.
    simulate("--from 10 --seeds 1 --days 0.006 --only equal");
}

/// Seeds that have found a fault of leases, ordered work and pauses, and what each found.
#[test]
fn coordination_and_pauses_survive_the_faults_of_known_seeds() {
    // Without the fence of a lease, former holders write after their successors.
    simulate("--from 1 --seeds 1 --days 0.03 --only bank");
    // Without the renewal of claims, a second process handles a message that takes 5 s.
    simulate("--from 5 --seeds 1 --days 0.01 --only bank");
    // Without its refusal, a coordinator takes a partition that it holds, and cancels handlers.
    simulate("--from 4 --seeds 1 --days 0.006 --only streams");
    // Without a limit of the pause, a handler of ten minutes stops the streams of its partition.
    simulate("--seed 3 --profile idle4busy4 --days 0.006 --only streams --without 0,1,2,3,4");
    // Before a lease was taken only unrenewed, a paused node took one that another had renewed since.
    simulate("--seed 100 --days 0.008 --only streams");
    // Without holding them back, activities of paused instances start as workers become free.
    simulate("--from 3 --seeds 1 --days 0.02 --only paused");
}
