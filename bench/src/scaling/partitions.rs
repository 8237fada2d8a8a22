//! Measures the cost of physical partitions: an idle cluster, a hello world, and a backlog that a
//! process without a runtime has left.

use std::time::Duration;

use cdb_bench_child::{Job, Order, Peer, Start};
use tokio::task::JoinSet;

use crate::args::Args;
use crate::measure::{Figures, medians, one_load, percentile};
use crate::plot::{Curve, curves};
use crate::process::Process;
use crate::report::{Report, number, optional};
use crate::site::Site;
use crate::workload::WORKLOADS;

const HEAD: &str = "\
| partitions | idle requests/s | hello requests | hello p50 ms | picked up p50 ms | backlog: requests each | KB each |
|--:|--:|--:|--:|--:|---|---|";

const IDLE_HEAD: &str = "\
| partitions | runtimes | idle requests/s | per partition | RU/s |
|--:|--:|--:|--:|--:|";

/// The numbers of starts in a backlog.
const BACKLOGS: [usize; 3] = [100, 1_000, 3_000];
/// The numbers of runtimes in an idle cluster.
const CLUSTERS: [usize; 3] = [1, 8, 50];
/// How long a cluster settles, so that its members know each other and its polls have slowed down.
const SETTLE: Duration = Duration::from_secs(15);
/// How long an idle cluster is measured.
const IDLE: Duration = Duration::from_secs(20);
/// The number of starts of another process while the runtime is idle.
const PICKED_UP: usize = 20;
/// The pause before each of them. Not a multiple of a poll interval.
const PAUSE: Duration = Duration::from_millis(1_370);

/// The figures of one runtime at one number of partitions.
struct Point {
    partitions: u32,
    idle: f64,
    hello: Figures,
    picked_up: f64,
    /// Requests and KB per orchestration, at each size of a backlog.
    backlogs: Vec<(usize, f64, f64)>,
}

/// The requests and request units per second of an idle cluster.
struct Cluster {
    partitions: u32,
    runtimes: usize,
    requests: f64,
    charge: f64,
}

/// Measures each number of partitions.
pub async fn run(args: &Args) -> Result<Report, String> {
    let sizes = args.sizes.clone();
    let sizes = sizes.unwrap_or_else(|| {
        if args.quick {
            vec![1, 10]
        } else {
            vec![1, 10, 50, 100]
        }
    });
    let clusters = if args.quick {
        &CLUSTERS[..2]
    } else {
        &CLUSTERS
    };
    let (mut points, mut idle) = (Vec::new(), Vec::new());
    println!("{HEAD}");
    for size in &sizes {
        let partitions = u32::try_from(*size).map_err(|error| error.to_string())?;
        points.push(point(args, partitions).await?);
        println!("{}", line(&points[points.len() - 1]));
    }
    println!("{IDLE_HEAD}");
    for size in &sizes {
        let partitions = u32::try_from(*size).map_err(|error| error.to_string())?;
        for runtimes in clusters {
            idle.push(cluster(args, partitions, *runtimes).await?);
            println!("{}", idle_line(&idle[idle.len() - 1]));
        }
    }
    Ok(report(args, &points, &idle))
}

async fn point(args: &Args, partitions: u32) -> Result<Point, String> {
    let mut hellos = Vec::new();
    for _ in 0..args.runs {
        let site = Site::emulated(Peer::Ours, args.latency(), partitions).await?;
        let mut process = Process::start(&job(args, &site, false)).await?;
        let load = WORKLOADS[0].orchestrations().to_load();
        hellos.push(one_load(&site, &mut process, load).await?);
        process.stop().await?;
    }
    let mut backlogs = Vec::new();
    let backlogs_of = if args.quick {
        &BACKLOGS[..1]
    } else {
        &BACKLOGS
    };
    for &size in backlogs_of {
        let (requests, kilobytes) = backlog(args, partitions, size).await?;
        backlogs.push((size, requests, kilobytes));
    }
    Ok(Point {
        partitions,
        idle: cluster(args, partitions, 1).await?.requests,
        hello: medians(hellos),
        picked_up: picked_up(args, partitions).await?,
        backlogs,
    })
}

fn job(args: &Args, site: &Site<'_>, members: bool) -> Job {
    Job {
        store: site.store(),
        dispatchers: args.dispatchers(),
        members,
    }
}

fn client(site: &Site<'_>) -> Job {
    Job {
        store: site.store(),
        dispatchers: 0,
        members: false,
    }
}

fn start(instance: String) -> Order {
    Order::Start(Start {
        instance,
        orchestration: "Chain".to_owned(),
        input: "1".to_owned(),
    })
}

/// Returns the requests and KB per orchestration of a backlog.
async fn backlog(args: &Args, partitions: u32, size: usize) -> Result<(f64, f64), String> {
    let site = Site::emulated(Peer::Ours, Duration::ZERO, partitions).await?;
    let mut starter = Process::start(&client(&site)).await?;
    for number in 0..size {
        starter.call(start(format!("backlog-{number}"))).await?;
    }
    starter.stop().await?;
    site.set_latency(args.latency());
    site.reset();
    let mut process = Process::start(&job(args, &site, false)).await?;
    for ended in 0..size {
        let reached = process.reached(Duration::from_secs(30)).await;
        reached.map_err(|error| format!("{ended} of a backlog of {size} ended: {error}"))?;
    }
    let traffic = site.traffic();
    process.stop().await?;
    if args.sql {
        for (text, count) in traffic.kinds.iter().chain(&traffic.queries) {
            println!("{count:>6} {text}");
        }
    }
    let size = size as f64;
    let kilobytes = traffic.bytes as f64 / 1024.0;
    Ok((traffic.requests() as f64 / size, kilobytes / size))
}

/// Returns the median time until an idle runtime has ended the start of another process.
async fn picked_up(args: &Args, partitions: u32) -> Result<f64, String> {
    let site = Site::emulated(Peer::Ours, args.latency(), partitions).await?;
    let mut process = Process::start(&job(args, &site, false)).await?;
    let mut starter = Process::start(&client(&site)).await?;
    let mut times = Vec::new();
    for number in 0..PICKED_UP {
        tokio::time::sleep(PAUSE).await;
        let (started, _) = starter.call(start(format!("other-{number}"))).await?;
        let (_, at) = process.reached(Duration::from_secs(30)).await?;
        times.push(at - started);
    }
    starter.stop().await?;
    process.stop().await?;
    times.sort_by(f64::total_cmp);
    Ok(percentile(&times, 50).unwrap_or(f64::NAN))
}

/// Measures an idle cluster. Its runtimes are members, unless there is one only.
async fn cluster(args: &Args, partitions: u32, runtimes: usize) -> Result<Cluster, String> {
    let site = Site::emulated(Peer::Ours, args.latency(), partitions).await?;
    let mut starting = JoinSet::new();
    for _ in 0..runtimes {
        let job = job(args, &site, runtimes > 1);
        starting.spawn(async move { Process::start(&job).await });
    }
    let processes: Result<Vec<_>, _> = starting.join_all().await.into_iter().collect();
    tokio::time::sleep(SETTLE).await;
    site.reset();
    tokio::time::sleep(IDLE).await;
    let traffic = site.traffic();
    for process in processes? {
        process.stop().await?;
    }
    let seconds = IDLE.as_secs_f64();
    Ok(Cluster {
        partitions,
        runtimes,
        requests: traffic.requests() as f64 / seconds,
        charge: traffic.charge.unwrap_or_default() / seconds,
    })
}

fn line(point: &Point) -> String {
    let each = |figure: fn(&(usize, f64, f64)) -> f64| {
        let cells = point.backlogs.iter();
        let cells = cells.map(|cell| format!("{}: {}", cell.0, number(figure(cell))));
        cells.collect::<Vec<_>>().join(", ")
    };
    format!(
        "| {} | {} | {} | {} | {} | {} | {} |",
        point.partitions,
        number(point.idle),
        number(point.hello.requests),
        optional(point.hello.p50),
        number(point.picked_up),
        each(|cell| cell.1),
        each(|cell| cell.2)
    )
}

fn idle_line(cluster: &Cluster) -> String {
    format!(
        "| {} | {} | {} | {} | {} |",
        cluster.partitions,
        cluster.runtimes,
        number(cluster.requests),
        number(cluster.requests / f64::from(cluster.partitions)),
        number(cluster.charge)
    )
}

fn report(args: &Args, points: &[Point], idle: &[Cluster]) -> Report {
    let lines: Vec<String> = points.iter().map(line).collect();
    let idle_lines: Vec<String> = idle.iter().map(idle_line).collect();
    let text = format!(
        "`cdb`, one process with {0}+{0} dispatchers, round trip {1} ms, medians of {2} runs. The starts that it picks up, and the \
         backlogs, are those of another process.\n\n{HEAD}\n{3}\n\nAn idle cluster; several runtimes share the work by membership, \
         and their heartbeats count.\n\n{IDLE_HEAD}\n{4}\n\n![cost on many partitions](performance-partitions.svg)",
        args.dispatchers(),
        args.latency().as_millis(),
        args.runs,
        lines.join("\n"),
        idle_lines.join("\n")
    );
    let curve = |label: &str, value: fn(&Point) -> f64| Curve {
        label: label.to_owned(),
        points: points
            .iter()
            .map(|point| (f64::from(point.partitions), value(point)))
            .collect(),
    };
    let plot = curves(
        "Requests on many physical partitions",
        "physical partitions",
        &[
            curve("hello world", |point| point.hello.requests),
            curve("each of the largest backlog", |point| {
                point.backlogs.last().map_or(f64::NAN, |backlog| backlog.1)
            }),
            curve("idle, per second", |point| point.idle),
        ],
    );
    Report {
        section: "partitions",
        text,
        plots: vec![("performance-partitions.svg".to_owned(), plot)],
    }
}
