//! A short form of the example `lease_race`: processes compete for the same documents, and half of
//! them are killed.

#[path = "../../examples/lease_race/race.rs"]
mod race;
#[path = "../../examples/lease_race/worker.rs"]
mod worker;

use std::time::Duration;

use crate::child::process;
use race::{Outcome, Race};
use worker::Task;

#[tokio::test]
#[ignore = "started as a process by the other test"]
async fn one_of_the_processes() {
    let task = Task::from_env().unwrap().expect("a task");
    worker::work(&task).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_document_is_leased_once_and_none_is_lost_with_its_holder() {
    let race = Race::start(300, Duration::from_secs(3600)).await.unwrap();
    let undisturbed = race.run(1, 4, 0, || process("lease_race")).await.unwrap();
    undisturbed.judge(300).unwrap();
    assert_eq!(
        undisturbed.leases,
        300,
        "{}\n{undisturbed}",
        Outcome::HEADER
    );
    // The survivors wait for the leases of killed processes. The lease is longer than a machine
    // stands still.
    let race = Race::start(300, Duration::from_secs(20)).await.unwrap();
    let disturbed = race.run(1, 4, 2, || process("lease_race")).await.unwrap();
    disturbed.judge(300).unwrap();
}
