//! Several runtimes, each a process, on one container.
//!
//! Two measurements: each runtime starts its own orchestrations; and all runtimes drain a backlog
//! of a process without a runtime, so they compete for all instances.

use std::time::Duration;

use cdb_bench_child::{Job, Load, Order, Peer, Start};
use tokio::task::JoinSet;

use crate::args::Args;
use crate::measure::median;
use crate::plot::{Curve, curves};
use crate::process::Process;
use crate::report::{Report, number};
use crate::site::Site;
use crate::workload::WORKLOADS;

const HEAD: &str = "\
| runtimes | own starts: per s | times one | requests | RU | shared backlog: per s | times one | requests | RU |
|--:|--:|--:|--:|--:|--:|--:|--:|--:|";

/// A longer round trip, so that it dominates and not the machine's processors.
const LATENCY: Duration = Duration::from_millis(20);

/// Orchestrations per second and the cost of each.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    per_second: f64,
    requests: f64,
    charge: f64,
}

/// The rates at a number of runtimes.
struct Point {
    runtimes: usize,
    /// Every runtime starts orchestrations of its own.
    own: Rate,
    /// The runtimes share a backlog.
    shared: Rate,
}

/// Measures both at each number of runtimes.
pub async fn run(args: &Args) -> Result<Report, String> {
    let sizes = args.sizes.clone().unwrap_or_else(|| vec![1, 2, 4, 8]);
    let mut points: Vec<Point> = Vec::new();
    println!("{HEAD}");
    for size in sizes {
        let (mut own, mut shared) = (Vec::new(), Vec::new());
        for _ in 0..args.runs {
            own.push(own_starts(args, size).await?);
            shared.push(shared_backlog(args, size).await?);
        }
        points.push(Point {
            runtimes: size,
            own: medians(&own),
            shared: medians(&shared),
        });
        println!("{}", line(&points[points.len() - 1], &points[0]));
    }
    Ok(report(args, &points))
}

/// Each runtime has ten orchestrations of its own in flight, for some seconds.
async fn own_starts(args: &Args, runtimes: usize) -> Result<Rate, String> {
    let site = Site::open(Peer::Ours, Duration::ZERO, None).await?;
    let processes = start(args, &site, runtimes).await?;
    site.set_latency(args.latency.unwrap_or(LATENCY));
    site.reset();
    let mut running = JoinSet::new();
    for (number, mut process) in processes.into_iter().enumerate() {
        let hello = WORKLOADS[0].orchestrations();
        let load = Load {
            count: usize::MAX,
            seconds: if args.quick { 4.0 } else { 10.0 },
            prefix: format!("runtime-{number}"),
            ..hello.to_load()
        };
        running.spawn(async move { process.run(load).await });
    }
    let (mut ended, mut seconds) = (0.0, f64::EPSILON);
    while let Some(outcome) = running.join_next().await {
        let outcome = outcome.map_err(|error| error.to_string())??;
        ended += outcome.times.len() as f64;
        seconds = outcome.seconds.max(seconds);
    }
    Ok(rate(&site, ended, seconds))
}

/// All runtimes work on the backlog.
async fn shared_backlog(args: &Args, runtimes: usize) -> Result<Rate, String> {
    let site = Site::open(Peer::Ours, Duration::ZERO, None).await?;
    let backlog = if args.quick { 50 } else { 150 } * runtimes;
    let mut client = Process::start(&Job {
        store: site.store(),
        dispatchers: 0,
        members: false,
    })
    .await?;
    for number in 0..backlog {
        let start = Start {
            instance: format!("backlog-{number}"),
            orchestration: "Chain".to_owned(),
            input: "1".to_owned(),
        };
        client.call(Order::Start(start)).await?;
    }
    client.stop().await?;
    site.set_latency(args.latency.unwrap_or(LATENCY));
    site.reset();
    let processes = start(args, &site, runtimes).await?;
    let mut draining = JoinSet::new();
    for mut process in processes {
        draining.spawn(async move {
            let mut times = Vec::new();
            while let Ok((_, at)) = process.reached(Duration::from_secs(5)).await {
                times.push(at);
            }
            times
        });
    }
    let mut times: Vec<f64> = draining.join_all().await.into_iter().flatten().collect();
    if times.len() < backlog {
        return Err(format!("{} of a backlog of {backlog} ended", times.len()));
    }
    times.sort_by(f64::total_cmp);
    // The first tenth, while the runtimes start, and the last, while they run dry, are left out.
    let (from, to) = (times.len() / 10, times.len() * 9 / 10);
    let per_second = (to - from) as f64 / ((times[to] - times[from]) / 1000.0);
    let all = rate(&site, backlog as f64, 1.0);
    Ok(Rate { per_second, ..all })
}

async fn start(args: &Args, site: &Site<'_>, runtimes: usize) -> Result<Vec<Process>, String> {
    let mut starting = JoinSet::new();
    for _ in 0..runtimes {
        let job = Job {
            store: site.store(),
            dispatchers: args.dispatchers(),
            members: false,
        };
        starting.spawn(async move { Process::start(&job).await });
    }
    starting.join_all().await.into_iter().collect()
}

fn rate(site: &Site<'_>, ended: f64, seconds: f64) -> Rate {
    let traffic = site.traffic();
    Rate {
        per_second: ended / seconds,
        requests: traffic.requests() as f64 / ended,
        charge: traffic.charge.unwrap_or_default() / ended,
    }
}

fn medians(rates: &[Rate]) -> Rate {
    let of = |figure: fn(&Rate) -> f64| median(rates.iter().map(figure).collect());
    Rate {
        per_second: of(|rate| rate.per_second),
        requests: of(|rate| rate.requests),
        charge: of(|rate| rate.charge),
    }
}

fn line(point: &Point, one: &Point) -> String {
    let cells = |rate: Rate, one: Rate| {
        format!(
            "{} | {} | {} | {}",
            number(rate.per_second),
            number(rate.per_second / one.per_second),
            number(rate.requests),
            number(rate.charge)
        )
    };
    format!(
        "| {} | {} | {} |",
        point.runtimes,
        cells(point.own, one.own),
        cells(point.shared, one.shared)
    )
}

fn report(args: &Args, points: &[Point]) -> Report {
    let lines: Vec<String> = points.iter().map(|point| line(point, &points[0])).collect();
    let text = format!(
        "`cdb`, hello worlds, each runtime a process with {}+{} dispatchers on one container, round trip {} ms, medians of {} runs. \
         With starts of its own, a runtime has ten in flight; the shared backlog was left by a process without a runtime.\n\n\
         {HEAD}\n{}\n\n![throughput of several runtimes](performance-runtimes.svg)",
        args.dispatchers(),
        args.dispatchers(),
        args.latency.unwrap_or(LATENCY).as_millis(),
        args.runs,
        lines.join("\n")
    );
    let curve = |label: &str, value: fn(&Point) -> f64| Curve {
        label: label.to_owned(),
        points: points
            .iter()
            .map(|point| (point.runtimes as f64, value(point)))
            .collect(),
    };
    let plot = curves(
        "Hello worlds per second on one container",
        "runtimes",
        &[
            curve("own starts", |point| point.own.per_second),
            curve("shared backlog", |point| point.shared.per_second),
        ],
    );
    Report {
        section: "runtimes",
        text,
        plots: vec![("performance-runtimes.svg".to_owned(), plot)],
    }
}
