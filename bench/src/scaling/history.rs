//! Measures a turn on a long history: by the runtime that has it cached, and by a new one.

use std::time::Duration;

use cdb_bench_child::{Job, Order, Peer, Start};

use crate::args::Args;
use crate::measure::median;
use crate::postgres::Postgres;
use crate::process::Process;
use crate::report::{Report, number, optional};
use crate::site::Site;

const HEAD: &str = "\
| events | provider | runtime | turn ms | requests | RU | KB |
|--:|---|---|--:|--:|--:|--:|";

/// How long a turn has for its commit.
const COMMIT: Duration = Duration::from_millis(300);
/// How long a history has to grow.
const PATIENCE: Duration = Duration::from_mins(10);

/// The measurement of one turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    milliseconds: f64,
    requests: f64,
    charge: Option<f64>,
    kilobytes: f64,
}

/// Measures both at each length, for each provider.
pub async fn run(args: &Args, postgres: Option<&Postgres>) -> Result<Report, String> {
    let lengths: &[usize] = if args.quick {
        &[10, 100]
    } else {
        &[10, 100, 1_000]
    };
    let lengths = args.sizes.clone().unwrap_or_else(|| lengths.to_vec());
    let mut lines = Vec::new();
    println!("{HEAD}");
    for length in lengths {
        for peer in Peer::ALL.into_iter().filter(|peer| args.has(*peer)) {
            if peer == Peer::Postgres && postgres.is_none() {
                continue;
            }
            for (label, turn) in turns(args, peer, postgres, length).await? {
                let line = format!(
                    "| {length} | {peer} | {label} | {} | {} | {} | {} |",
                    number(turn.milliseconds),
                    number(turn.requests),
                    optional(turn.charge),
                    number(turn.kilobytes)
                );
                println!("{line}");
                lines.push(line);
            }
        }
    }
    let text = format!(
        "From the call that raises an event to the statement behind the wait for it, and what was asked until the turn was committed, \
         the event's own request included; medians of {} turns, round trip {} ms. A new runtime is a process that has not seen the \
         instance.\n\n{HEAD}\n{}",
        args.runs,
        args.latency().as_millis(),
        lines.join("\n")
    );
    Ok(Report {
        section: "history",
        text,
        plots: Vec::new(),
    })
}

async fn turns(
    args: &Args,
    peer: Peer,
    postgres: Option<&Postgres>,
    length: usize,
) -> Result<[(&'static str, Turn); 2], String> {
    let site = Site::open(peer, Duration::ZERO, postgres).await?;
    let job = Job {
        store: site.store(),
        dispatchers: args.dispatchers(),
        members: false,
    };
    let mut process = Process::start(&job).await?;
    // An activity is two events; the start and the subscription are one each.
    let start = Start {
        instance: "long".to_owned(),
        orchestration: "Long".to_owned(),
        input: (length.saturating_sub(2) / 2).to_string(),
    };
    process.call(Order::Start(start)).await?;
    process.reached(PATIENCE).await?;
    tokio::time::sleep(COMMIT).await;
    site.set_latency(args.latency());
    let mut same = Vec::new();
    for _ in 0..args.runs {
        same.push(turn(&site, &mut process).await?);
    }
    process.stop().await?;
    let mut new = Vec::new();
    for _ in 0..args.runs {
        let mut process = Process::start(&job).await?;
        tokio::time::sleep(COMMIT).await;
        new.push(turn(&site, &mut process).await?);
        process.stop().await?;
    }
    Ok([("same", medians(&same)), ("new", medians(&new))])
}

async fn turn(site: &Site<'_>, process: &mut Process) -> Result<Turn, String> {
    site.reset();
    let (started, _) = process.call(Order::Raise("long".to_owned())).await?;
    let (_, at) = process.reached(Duration::from_mins(1)).await?;
    tokio::time::sleep(COMMIT).await;
    let traffic = site.traffic();
    Ok(Turn {
        milliseconds: at - started,
        requests: traffic.requests() as f64,
        charge: traffic.charge,
        kilobytes: traffic.bytes as f64 / 1024.0,
    })
}

fn medians(turns: &[Turn]) -> Turn {
    let of = |figure: fn(&Turn) -> f64| median(turns.iter().map(figure).collect());
    Turn {
        milliseconds: of(|turn| turn.milliseconds),
        requests: of(|turn| turn.requests),
        charge: turns
            .iter()
            .all(|turn| turn.charge.is_some())
            .then(|| of(|turn| turn.charge.unwrap_or_default())),
        kilobytes: of(|turn| turn.kilobytes),
    }
}
