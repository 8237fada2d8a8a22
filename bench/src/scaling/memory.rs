//! Memory of a runtime with many running instances: all have taken a turn and wait for an event.

use std::time::Duration;

use cdb_bench_child::{Job, Load, Peer};

use crate::args::Args;
use crate::process::Process;
use crate::report::{Report, number};
use crate::site::Site;
use crate::workload::WORKLOADS;

const HEAD: &str = "\
| running instances | MB before | MB with them | MB at most |
|--:|--:|--:|--:|";

/// Dispatchers of each kind: more than 2+2, to save time.
const DISPATCHERS: u32 = 16;

/// Measures ours at each number of instances.
pub async fn run(args: &Args) -> Result<Report, String> {
    let sizes = args
        .sizes
        .clone()
        .unwrap_or_else(|| vec![if args.quick { 500 } else { 10_000 }]);
    let mut lines = Vec::new();
    println!("{HEAD}");
    for size in sizes {
        lines.push(once(args, size).await?);
        println!("{}", lines[lines.len() - 1]);
    }
    let text = format!(
        "`cdb`, one process with {0}+{0} dispatchers that started every instance itself and ran its first turn; resident memory.\n\n{HEAD}\n{1}",
        args.dispatchers.unwrap_or(DISPATCHERS),
        lines.join("\n")
    );
    Ok(Report {
        section: "memory",
        text,
        plots: Vec::new(),
    })
}

async fn once(args: &Args, size: usize) -> Result<String, String> {
    let place = Site::open(Peer::Ours, Duration::ZERO, None).await?;
    let job = Job {
        store: place.store(),
        dispatchers: args.dispatchers.unwrap_or(DISPATCHERS),
        members: false,
    };
    let mut process = Process::start(&job).await?;
    let before = process.usage().await?;
    let load = Load {
        orchestration: "Wait".to_owned(),
        count: size,
        window: size,
        starters: 32,
        prefix: "running".to_owned(),
        ..WORKLOADS[0].orchestrations().to_load()
    };
    let outcome = process.run(load).await?;
    if outcome.times.len() < size {
        return Err(format!("{} of {size} instances ran", outcome.times.len()));
    }
    let after = process.usage().await?;
    process.stop().await?;
    Ok(format!(
        "| {size} | {} | {} | {} |",
        number(before.memory),
        number(after.memory),
        number(after.peak)
    ))
}
