//! The table of the design, section 9: every workload, every provider.

use crate::args::Args;
use crate::measure::{Figures, measure};
use crate::postgres::Postgres;
use crate::report::{Report, number, optional};
use crate::workload::{Kind, Workload};
use cdb_bench_child::Peer;

const HEAD: &str = "\
| workload | provider | requests | by kind | RU | KB | p50 ms | p99 ms | per s | CPU ms | MB |
|---|---|--:|---|--:|--:|--:|--:|--:|--:|--:|";

/// One row.
#[derive(Debug)]
pub struct Row {
    pub workload: Workload,
    pub peer: Peer,
    pub figures: Figures,
}

/// Measures and reports; prints each row as soon as it is there.
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
    let kinds: Vec<String> = figures
        .kinds
        .iter()
        .filter(|(_, requests)| **requests >= 0.05)
        .map(|(kind, requests)| format!("{kind} {}", number(*requests)))
        .collect();
    let wrong = figures
        .wrong
        .map(|(wrong, of)| format!(", {wrong} of {of} wrong"))
        .unwrap_or_default();
    format!(
        "| {}{wrong} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        row.workload.label,
        row.peer,
        number(figures.requests),
        kinds.join(", "),
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
        text.push_str(&format!("\n{} was skipped: {reason}.\n", Peer::Postgres));
    }
    Report {
        section: "table",
        text,
        plots: Vec::new(),
    }
}
