//! Measures the request units, the time and the size of the dashboard's answers.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::server::{get, json};
use super::serving::Serving;

/// The time in which a new sample of the dashboard's usage is certain.
const SAMPLED: Duration = Duration::from_millis(2_300);

/// Returns the request units of the dashboard so far, without those of its probe.
async fn charge(serving: &Serving) -> f64 {
    tokio::time::sleep(SAMPLED).await;
    let samples = json(serving, "api/latency").await;
    let charges = samples.as_array().expect("samples").iter();
    charges
        .map(|sample| sample["charge"].as_f64().expect("a charge") - 1.0)
        .sum()
}

/// Prints a line of a table for each view.
pub(super) async fn print(serving: &Serving) {
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
        let before = charge(serving).await;
        let started = Instant::now();
        let bytes = get(serving, path).await.bytes().await.expect("a body");
        let took = started.elapsed().as_millis();
        let cost = charge(serving).await - before;
        println!("| {name} | {cost:.0} | {took} | {} |", bytes.len());
        assert!(serde_json::from_slice::<Value>(&bytes).is_ok(), "{path}");
    }
}
