//! Measures the throughput: 64 dispatchers of each kind, 1,000 orchestrations in flight.

use cdb_bench_child::{Job, Load, Peer};

use crate::args::Args;
use crate::measure::{Figures, medians, one_load};
use crate::postgres::Postgres;
use crate::process::Process;
use crate::report::{Report, number, optional};
use crate::site::Site;
use crate::workload::WORKLOADS;

const HEAD: &str = "\
| provider | per s | requests | RU | KB | p50 ms | CPU ms | MB |
|---|--:|--:|--:|--:|--:|--:|--:|";

const DISPATCHERS: u32 = 64;
const IN_FLIGHT: usize = 1_000;
/// Concurrent starts.
const STARTERS: usize = 64;

/// Measures each provider for some seconds.
pub async fn run(args: &Args, postgres: Option<&Postgres>) -> Result<Report, String> {
    let seconds = if args.quick { 10.0 } else { 30.0 };
    let mut lines = Vec::new();
    println!("{HEAD}");
    for peer in Peer::ALL.into_iter().filter(|peer| args.has(*peer)) {
        if peer == Peer::Postgres && postgres.is_none() {
            continue;
        }
        let mut runs = Vec::new();
        for _ in 0..args.runs {
            runs.push(once(args, peer, postgres, seconds).await?);
        }
        lines.push(line(peer, &medians(runs)));
        println!("{}", lines[lines.len() - 1]);
    }
    let text = format!(
        "Hello worlds, {IN_FLIGHT} in flight, {0}+{0} dispatchers, {seconds} s from an empty container, round trip {1} ms, medians of {2} \
         runs. Requests and the like are per orchestration that ended.\n\n{HEAD}\n{3}",
        args.dispatchers.unwrap_or(DISPATCHERS),
        args.latency().as_millis(),
        args.runs,
        lines.join("\n")
    );
    Ok(Report {
        section: "throughput",
        text,
        plots: Vec::new(),
    })
}

async fn once(
    args: &Args,
    peer: Peer,
    postgres: Option<&Postgres>,
    seconds: f64,
) -> Result<Figures, String> {
    let site = Site::open(peer, args.latency(), postgres).await?;
    let job = Job {
        store: site.store(),
        dispatchers: args.dispatchers.unwrap_or(DISPATCHERS),
        members: false,
    };
    let mut process = Process::start(&job).await?;
    let load = Load {
        count: usize::MAX,
        window: IN_FLIGHT,
        starters: STARTERS,
        seconds,
        ..WORKLOADS[0].orchestrations().to_load()
    };
    let figures = one_load(&site, &mut process, load).await;
    process.stop().await?;
    figures
}

fn line(peer: Peer, figures: &Figures) -> String {
    format!(
        "| {peer} | {} | {} | {} | {} | {} | {} | {} |",
        optional(figures.per_second),
        number(figures.requests),
        optional(figures.charge),
        number(figures.kilobytes),
        optional(figures.p50),
        number(figures.cpu),
        number(figures.memory)
    )
}
