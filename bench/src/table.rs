//! The table of the design, section 9: every workload, every provider.

use std::fmt::Write as _;

use crate::args::Args;
use crate::measure::{Figures, measure};
use crate::plot::{Group, bars};
use crate::postgres::Postgres;
use crate::report::{Report, number, optional};
use crate::workload::{Kind, Workload};
use cdb_bench_child::Peer;

const HEAD: &str = "\
| workload | provider | requests | RU | KB | p50 ms | p99 ms | per s | CPU ms | MB |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|";

/// One row.
#[derive(Debug)]
pub struct Row {
    pub workload: Workload,
    pub peer: Peer,
    pub figures: Figures,
}

/// Measures and reports. Prints each row as soon as it is measured.
pub async fn run(args: &Args, postgres: &Result<Postgres, String>) -> Result<Report, String> {
    let mut rows = Vec::new();
    println!("{HEAD}");
    for workload in args.workloads() {
        for peer in Peer::ALL.into_iter().filter(|peer| args.has(*peer)) {
            let postgres = postgres.as_ref().ok();
            let on_postgres = peer == Peer::Postgres;
            if on_postgres && (postgres.is_none() || matches!(workload.kind, Kind::Faults(_))) {
                continue;
            }
            match measure(args, peer, workload.kind, postgres).await {
                Ok(figures) => {
                    let row = Row {
                        workload,
                        peer,
                        figures,
                    };
                    println!("{}", line(&row));
                    print_queries(args, &row);
                    rows.push(row);
                }
                Err(error) => println!("| {} | {peer} | {error} |", workload.label),
            }
        }
    }
    Ok(report(args, postgres, &rows))
}

fn print_queries(args: &Args, row: &Row) {
    if args.sql {
        for (sql, times) in &row.figures.queries {
            eprintln!("  {times} × {sql}");
        }
    }
}

fn line(row: &Row) -> String {
    let figures = &row.figures;
    let wrong = figures
        .wrong
        .map(|(wrong, of)| format!(", {wrong} of {of} wrong"))
        .unwrap_or_default();
    format!(
        "| {}{wrong} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        row.workload.label,
        row.peer,
        number(figures.requests),
        optional(figures.charge),
        number(figures.kilobytes),
        optional(figures.p50),
        optional(figures.p99),
        optional(figures.per_second),
        number(figures.cpu),
        number(figures.memory),
    )
}

fn report(args: &Args, postgres: &Result<Postgres, String>, rows: &[Row]) -> Report {
    let mut text = format!(
        "Medians of {} runs, round trip {} ms, {}+{} dispatchers.\n\n{HEAD}\n",
        args.runs,
        args.latency().as_millis(),
        args.dispatchers(),
        args.dispatchers()
    );
    for row in rows {
        text.push_str(&line(row));
        text.push('\n');
    }
    if let (Err(reason), true) = (postgres, args.has(Peer::Postgres)) {
        // Writing to a string does not fail.
        let _written = writeln!(text, "\n{} was skipped: {reason}.", Peer::Postgres);
    }
    // Drawings compare providers.
    let mut plots = Vec::new();
    if rows.iter().any(|row| row.peer != Peer::Ours) {
        text.push_str(
            "
![time per orchestration](performance-time.svg)

![requests per orchestration](performance-requests.svg)
",
        );
        plots.push(plot(
            "performance-time.svg",
            "Time per orchestration, p50 in ms",
            rows,
            |figures| figures.p50,
        ));
        plots.push(plot(
            "performance-requests.svg",
            "Requests per orchestration",
            rows,
            |figures| Some(figures.requests),
        ));
    }
    Report {
        section: "table",
        text,
        plots,
    }
}

/// Plots the bars of one figure, for workloads with a value.
fn plot(
    name: &str,
    title: &str,
    rows: &[Row],
    figure: fn(&Figures) -> Option<f64>,
) -> (String, String) {
    let peers: Vec<Peer> = Peer::ALL
        .into_iter()
        .filter(|peer| rows.iter().any(|row| row.peer == *peer))
        .collect();
    let mut groups: Vec<Group> = Vec::new();
    for row in rows
        .iter()
        .filter(|row| !matches!(row.workload.kind, Kind::Idle))
    {
        if groups
            .last()
            .is_none_or(|group| group.label != row.workload.label)
        {
            groups.push(Group {
                label: row.workload.label.to_owned(),
                values: vec![None; peers.len()],
            });
        }
        let place = peers.iter().position(|peer| *peer == row.peer);
        if let (Some(group), Some(place)) = (groups.last_mut(), place) {
            group.values[place] = figure(&row.figures);
        }
    }
    let series: Vec<String> = peers.iter().map(Peer::to_string).collect();
    (name.to_owned(), bars(title, &series, &groups))
}
