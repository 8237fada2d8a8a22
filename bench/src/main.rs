//! Measures requests, request units, bytes, time and memory per orchestration, for our provider and
//! others. Each has a store and a process of its own, behind the same round trip.
//!
//! `cargo xtask bench-orch` prints the tables of docs/performance.md and writes them there;
//! `cargo xtask bench-orch --help` explains the options.

mod args;
mod instructions;
mod measure;
mod peers;
mod plot;
mod postgres;
mod process;
mod proxy;
mod report;
mod scaling;
mod site;
mod table;
mod workload;

use std::process::ExitCode;
use std::sync::Arc;

use args::{Args, USAGE};
use cdb_bench_child::{Job, Peer};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig, HandOver, MembershipConfig};
use duroxide::providers::Provider;
use postgres::Postgres;
use report::Report;

/// The database of every measurement.
pub const DATABASE: &str = "bench";

/// The variable for a measurement in which every message is stored before it is consumed.
const STORED: &str = "CDB_BENCH_STORED";

/// All commands, in the order of the document.
const COMMANDS: [&str; 9] = [
    "table",
    "waiting",
    "runtimes",
    "partitions",
    "history",
    "throughput",
    "pickup",
    "memory",
    "instructions",
];

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_env_filter("off").init();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let ended = match words.first().map(String::as_str) {
        Some(instructions::REPEAT) => instructions::repeat(&words),
        Some(process::CHILD) => cdb_bench_child::run(open).await,
        Some("--help" | "help") => {
            println!("{USAGE}");
            Ok(())
        }
        _ => benchmark(words).await,
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Ours, for a child process.
async fn open(job: Job) -> Result<Arc<dyn Provider>, String> {
    let config = CosmosDBProviderConfig {
        endpoint: job.store.endpoint,
        key: job.store.key,
        database: DATABASE.to_owned(),
        orch_concurrency: job.dispatchers.max(1),
        worker_concurrency: job.dispatchers.max(1),
        hand_over: match std::env::var_os(STORED) {
            Some(_) => HandOver::Never,
            None => HandOver::default(),
        },
        membership: job.members.then(MembershipConfig::default),
        ..Default::default()
    };
    let provider = CosmosDBProvider::new_with_config(config).await;
    Ok(Arc::new(provider.map_err(|error| error.to_string())?))
}

async fn benchmark(words: Vec<String>) -> Result<(), String> {
    let args = Args::parse(words).map_err(|error| format!("{error}\n\n{USAGE}"))?;
    // These measure only our provider.
    let ours_alone = matches!(
        args.command.as_str(),
        "waiting" | "runtimes" | "partitions" | "memory" | "instructions"
    );
    let compares = |peer| !ours_alone && args.has(peer);
    if compares(Peer::Existing) || compares(Peer::Postgres) {
        peers::build()?;
    }
    let postgres = if compares(Peer::Postgres) {
        Postgres::start().await
    } else {
        Err("not asked for".to_owned())
    };
    let commands = match args.command.as_str() {
        "all" => COMMANDS.to_vec(),
        command => vec![command],
    };
    for command in commands {
        let report = report(command, &args, &postgres).await?;
        if args.writes() {
            report.write()?;
        }
    }
    Ok(())
}

async fn report(
    command: &str,
    args: &Args,
    postgres: &Result<Postgres, String>,
) -> Result<Report, String> {
    let server = postgres.as_ref().ok();
    match command {
        "table" => table::run(args, postgres).await,
        "waiting" => scaling::waiting(args).await,
        "runtimes" => scaling::runtimes(args).await,
        "partitions" => scaling::partitions(args).await,
        "history" => scaling::history(args, server).await,
        "throughput" => scaling::throughput(args, server).await,
        "pickup" => scaling::pickup(args, server).await,
        "memory" => scaling::memory(args).await,
        "instructions" => instructions::run(),
        other => Err(format!("unknown command `{other}`\n\n{USAGE}")),
    }
}
