//! Measures the request units, the time and the size of the dashboard's answers.

use std::time::Instant;

use serde_json::Value;

use super::server::get;
use super::serving::Serving;
use crate::harness::Account;

/// Prints a line of a table for each view.
pub(super) async fn print(account: &Account, serving: &Serving) {
    println!("| answer | RU | ms | bytes |\n|---|---|---|---|");
    for (name, path) in [
        ("instances, newest roots", "api/instances?roots=true"),
        (
            "instances, failed roots",
            "api/instances?roots=true&status=Failed",
        ),
        (
            "instances by orchestration",
            "api/instances?orchestration=Import",
        ),
        (
            "instances by a custom status that none has",
            "api/instances?customStatus=none",
        ),
        ("overview, first answer", "api/overview"),
        ("overview, next answer", "api/overview"),
        ("queues and runtimes", "api/queues"),
        ("an instance", "api/instances/order-2"),
        ("its history", "api/instances/order-2/history"),
    ] {
        let before = account.emulator.requests().charge;
        let started = Instant::now();
        let bytes = get(serving, path).await.bytes().await.expect("a body");
        let took = started.elapsed().as_millis();
        let cost = account.emulator.requests().charge - before;
        println!("| {name} | {cost:.0} | {took} | {} |", bytes.len());
        assert!(serde_json::from_slice::<Value>(&bytes).is_ok(), "{path}");
    }
}
