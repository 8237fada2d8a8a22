//! Prints the figures of today's algorithm and of the protocol.

use crate::cases;
use crate::judge::Report;
use crate::protocol::Protocol;
use crate::today::Today;
use crate::world::{Scenario, run};

/// Prints the table.
pub fn print_table() {
    for trip in [20, 150, 400] {
        row(&cases::long_activities(trip));
    }
    for nodes in [1, 2, 8, 50] {
        row(&cases::shared_rate(nodes, 150));
    }
    row(&cases::unequal_rate(150));
    row(&cases::low_rate(150));
    for trip in [20, 150, 400] {
        row(&cases::newcomer(trip));
    }
    row(&cases::backlog(150, false));
    row(&cases::backlog(150, true));
    for nodes in [2, 4] {
        row(&cases::two_keys(nodes, 20));
    }
    row(&cases::priority(20));
    row(&cases::weights(20));
    row(&cases::many_keys(1_000, 2, 150));
    for nodes in [2, 3, 50] {
        row(&cases::busy_key(nodes, 20, 5, 200));
    }
    for nodes in [3, 8] {
        row(&cases::bound(nodes, 2, 20));
    }
}

fn row(scenario: &Scenario) {
    println!("{}", scenario.name);
    show(&run::<Today>(scenario));
    show(&run::<Protocol>(scenario));
}

fn show(report: &Report) {
    println!(
        "  {:6} started {} ended {} share {:.2} wait {:.1?} excess {:.1?} last start {:.1?} end {:.1?} requests/start {:.2} {:?}",
        report.algorithm,
        report.started(),
        report.ended(),
        report.share(),
        report.longest_wait(),
        report.longest_excess(),
        report.last_start(),
        report.last_end(),
        report.requests_per_start(),
        report.violations(),
    );
}
