//! Measures an orchestration while many instances wait for an event or a distant timer.

use cdb_bench_child::{Job, Peer};

use crate::args::Args;
use crate::measure::{Figures, median, one_load};
use crate::plot::{Curve, curves};
use crate::process::Process;
use crate::report::{Report, number, optional};
use crate::scaling::seed::Seed;
use crate::site::Site;
use crate::workload::WORKLOADS;

const HEAD: &str = "\
| waiting instances | requests | RU | KB | p50 ms | runtime MB |
|--:|--:|--:|--:|--:|--:|";

/// Measures a hello world at each size; the container grows from one to the next.
pub async fn run(args: &Args) -> Result<Report, String> {
    let quick: &[usize] = if args.quick {
        &[100, 1_000]
    } else {
        &[100, 1_000, 10_000, 100_000]
    };
    let sizes = args.sizes.clone().unwrap_or_else(|| quick.to_vec());
    let site = Site::open(Peer::Ours, std::time::Duration::ZERO, None).await?;
    let mut seed = Seed::new(&site.store()).await?;
    let mut points = Vec::new();
    println!("{HEAD}");
    for size in sizes {
        site.set_latency(std::time::Duration::ZERO);
        seed.grow_to(size).await?;
        site.set_latency(args.latency());
        let mut runs = Vec::new();
        for run in 0..args.runs {
            runs.push(hello(args, &site, &format!("hello-{size}-{run}")).await?);
        }
        let figures = crate::measure::medians(runs);
        println!("{}", line(size, &figures));
        points.push((size, figures));
    }
    Ok(report(args, &points))
}

async fn hello(args: &Args, site: &Site<'_>, prefix: &str) -> Result<Figures, String> {
    let mut process = Process::start(&Job {
        store: site.store(),
        dispatchers: args.dispatchers(),
        members: false,
    })
    .await?;
    let mut load = WORKLOADS[0].orchestrations().to_load();
    prefix.clone_into(&mut load.prefix);
    let figures = one_load(site, &mut process, load).await;
    process.stop().await?;
    figures
}

fn line(size: usize, figures: &Figures) -> String {
    format!(
        "| {size} | {} | {} | {} | {} | {} |",
        number(figures.requests),
        optional(figures.charge),
        number(figures.kilobytes),
        optional(figures.p50),
        number(figures.memory)
    )
}

fn report(args: &Args, points: &[(usize, Figures)]) -> Report {
    let lines: Vec<String> = points
        .iter()
        .map(|(size, figures)| line(*size, figures))
        .collect();
    let requests: Vec<f64> = points.iter().map(|(_, figures)| figures.requests).collect();
    let middle = median(requests.clone());
    let spread = requests
        .iter()
        .map(|requests| (requests / middle - 1.0).abs())
        .fold(0.0, f64::max);
    let text = format!(
        "`cdb`, a hello world while others wait, half for an event and half for a timer; medians of {} runs, round trip {} ms. \
         Requests stay within {} % of their median.\n\n{HEAD}\n{}\n\n![cost while others wait](performance-waiting.svg)",
        args.runs,
        args.latency().as_millis(),
        number(spread * 100.0),
        lines.join("\n")
    );
    let curve = |label: &str, value: fn(&Figures) -> f64| Curve {
        label: label.to_owned(),
        points: points
            .iter()
            .map(|(size, figures)| (*size as f64, value(figures)))
            .collect(),
    };
    let plot = curves(
        "A hello world while other instances wait",
        "waiting instances",
        &[
            curve("requests", |figures| figures.requests),
            curve("RU", |figures| figures.charge.unwrap_or_default()),
            curve("KB", |figures| figures.kilobytes),
        ],
    );
    Report {
        section: "waiting",
        text,
        plots: vec![("performance-waiting.svg".to_owned(), plot)],
    }
}
