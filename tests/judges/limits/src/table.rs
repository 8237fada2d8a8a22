//! Prints the figures of the protocol.

use std::time::Duration;

use crate::cases;
use crate::judge::{Outcome, Report};
use crate::protocol::Protocol;
use crate::world::{Algorithm, Scenario, run, secs};

/// A row: a scenario, and the figure that its promise is about.
type Figure = fn(&Report) -> String;

/// Prints the table.
pub fn print_table() {
    println!("| case | figure |\n|---|---|");
    let used: Figure = |report| format!("{} ended, share {:.2}", report.ended(), report.share());
    for trip in [20, 150, 400] {
        row(&cases::long_activities(trip), used);
    }
    for nodes in [3, 50] {
        row(&cases::saturated(nodes), used);
    }
    rates();
    for trip in [20, 150, 400] {
        row(&cases::newcomer(trip), |report| {
            let newcomer = report.items.last().and_then(Outcome::wait);
            format!("waits {}", shown(newcomer.unwrap_or(Duration::MAX)))
        });
    }
    for is_limited in [false, true] {
        let end: Figure =
            |report| format!("end {}", shown(report.last_end().saturating_sub(secs(1))));
        row(&cases::backlog(150, is_limited), end);
    }
    for nodes in [2, 4] {
        row(&cases::two_keys(nodes, 20), |report| {
            format!("fourth call {}", shown(cases::fourth_call(report)))
        });
    }
    row(&cases::priority(20), |report| {
        format!("passed by {}", cases::passed(report))
    });
    row(&cases::weights(20), |report| {
        let bobs = cases::bobs_of_the_first_60(report);
        format!("{} to {bobs}", 60 - bobs)
    });
    let excess: Figure =
        |report| format!("wait less a perfect one {}", shown(report.longest_excess()));
    row(&cases::many_keys(1_000, 2, 150), excess);
    for nodes in [2, 3, 50] {
        row(&cases::busy_key(nodes, 20, 5, 200), excess);
    }
    for (nodes, limit) in [(3, 2), (8, 2), (20, 1)] {
        row(&cases::bound(nodes, limit, 20), excess);
    }
    let flood = cases::bound_beside_flood(20);
    let fourth: Figure = |report| format!("fourth {}", shown(cases::fourth_bound(report)));
    row(&flood, fourth);
    println!(
        "| the same without the line | {} |",
        cell::<Protocol<true, false>>(&flood, fourth)
    );
    storms();
}

fn rates() {
    let last: Figure = |report| format!("last start {}", shown(since_first(report)));
    for nodes in [1, 2, 8, 50] {
        row(&cases::shared_rate(nodes, 150), last);
    }
    row(&cases::unequal_rate(150), last);
    row(&cases::low_rate(150), |report| {
        let starts = report
            .keys
            .values()
            .map(|key| key.starts.len())
            .sum::<usize>();
        format!("first {}, {starts} starts", shown(first(report)))
    });
}

/// Prints how the protocol fares in 200 storms of faults.
fn storms() {
    let (mut violations, mut left) = (0, 0);
    for seed in 0..200 {
        let scenario = cases::storm(seed);
        let report = run::<Protocol>(&scenario);
        violations += cases::excused(&report).len();
        left += scenario.items.len() - report.ended();
    }
    println!("| 200 storms of faults | {violations} promises broken, {left} items left |");
}

fn row(scenario: &Scenario, figure: Figure) {
    println!(
        "| {} | {} |",
        scenario.name,
        cell::<Protocol>(scenario, figure)
    );
}

/// Returns the figure, the violations and the requests per start.
fn cell<A: Algorithm>(scenario: &Scenario, figure: Figure) -> String {
    let report = run::<A>(scenario);
    let violations = report.violations().len();
    let wrong = if violations > 0 {
        format!(", {} over, **{violations} promises broken**", report.over())
    } else {
        String::new()
    };
    let requests = report.requests_per_start();
    format!("{}{wrong}, {requests:.2} requests a start", figure(&report))
}

fn first(report: &Report) -> Duration {
    let starts = report.items.iter().filter_map(|item| item.started).min();
    starts.map_or(Duration::MAX, |start| start.saturating_sub(secs(1)))
}

/// Returns the time from the last birth to the last start.
fn since_first(report: &Report) -> Duration {
    let born = report
        .items
        .iter()
        .map(|item| item.born)
        .max()
        .unwrap_or_default();
    report.last_start().saturating_sub(born)
}

fn shown(time: Duration) -> String {
    if time > secs(1_000_000) {
        "never".to_owned()
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}
