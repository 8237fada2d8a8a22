//! Requests, request units, bytes and time per orchestration: ours beside duroxide-cdb, each on an emulator of its own
//! behind the same round trip.
//!
//! `cargo bench-orch [round trip in ms]` prints the table that docs/performance.md holds.

mod workload;

use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::Emulator;
use duroxide::providers::Provider;
use workload::{WORKLOADS, idle, run};

const IDLE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug)]
enum Peer {
    Ours,
    Existing,
}

#[derive(Debug)]
struct Figures {
    requests: f64,
    charge: f64,
    kilobytes: f64,
    p50: Duration,
    p99: Duration,
}

#[tokio::main]
async fn main() {
    let round_trip = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(3);
    let latency = Duration::from_millis(round_trip);
    tracing_subscriber::fmt().with_env_filter("error").init();
    println!("| workload | requests: existing | ours | RU: existing | ours | KB: existing | ours | p50 ms: existing | ours | p99 ms: existing | ours |");
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for workload in WORKLOADS {
        let mut columns = Vec::new();
        for peer in [Peer::Existing, Peer::Ours] {
            let (emulator, provider) = open(peer, latency).await;
            emulator.reset_requests();
            let times = run(provider, workload).await;
            let log = emulator.requests();
            let count = workload.count as f64;
            if std::env::var_os("KINDS").is_some() {
                let kinds: Vec<_> = log
                    .counts
                    .iter()
                    .map(|(kind, requests)| format!("{kind} {:.1}", *requests as f64 / count))
                    .collect();
                eprintln!("{} {peer:?}: {} statuses {:?}", workload.label, kinds.join(", "), log.statuses);
                for (sql, times) in &log.queries { eprintln!("   {times} {sql}"); }
            }
            columns.push(Figures {
                requests: log.data_requests() as f64 / count,
                charge: log.charge / count,
                kilobytes: (log.bytes_in + log.bytes_out) as f64 / 1024.0 / count,
                p50: times[times.len() / 2],
                p99: times[times.len() * 99 / 100],
            });
        }
        let [existing, ours] = &*columns else { return };
        println!(
            "| {} | {:.1} | {:.1} | {:.0} | {:.0} | {:.1} | {:.1} | {} | {} | {} | {} |",
            workload.label,
            existing.requests,
            ours.requests,
            existing.charge,
            ours.charge,
            existing.kilobytes,
            ours.kilobytes,
            existing.p50.as_millis(),
            ours.p50.as_millis(),
            existing.p99.as_millis(),
            ours.p99.as_millis(),
        );
    }
    for peer in [Peer::Existing, Peer::Ours] {
        let (emulator, provider) = open(peer, latency).await;
        emulator.reset_requests();
        idle(provider, IDLE).await;
        let rate = emulator.requests().data_requests() as f64 / IDLE.as_secs_f64();
        println!("\nidle, {peer:?}: {rate:.1} requests per second");
    }
}

async fn open(peer: Peer, latency: Duration) -> (Emulator, Arc<dyn Provider>) {
    let emulator = Emulator::builder()
        .latency(latency)
        .start()
        .await
        .expect("the emulator starts");
    let (endpoint, key) = (emulator.endpoint(), emulator.key().to_owned());
    let provider: Arc<dyn Provider> = match peer {
        Peer::Ours => Arc::new(
            cdb_provider::CosmosDBProvider::new(&endpoint, &key, "bench")
                .await
                .expect("ours opens"),
        ),
        Peer::Existing => Arc::new(
            duroxide_cdb::CosmosDBProvider::new(endpoint.trim_end_matches('/'), &key, "bench")
                .await
                .expect("the existing one opens"),
        ),
    };
    (emulator, provider)
}
