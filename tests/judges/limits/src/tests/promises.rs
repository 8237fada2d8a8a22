//! The promises of docs/limits.md and the rows of the table, for the protocol.

use std::time::Duration;

use crate::cases;
use crate::judge::Report;
use crate::protocol::Protocol;
use crate::world::{Scenario, millis, run, secs};

fn kept(scenario: &Scenario) -> Report {
    let report = run::<Protocol>(scenario);
    let violations = report.violations();
    assert!(
        violations.is_empty(),
        "{} (seed {}): {violations:?}",
        scenario.name,
        scenario.seed
    );
    report
}

#[test]
fn fifty_runtimes_keep_to_a_limit_and_use_it() {
    for trip in [20, 150, 400] {
        let report = kept(&cases::long_activities(trip));
        assert!(
            report.ended() >= 212,
            "{}: {}",
            report.scenario,
            report.ended()
        );
        assert!(
            report.share() >= 0.90,
            "{}: {}",
            report.scenario,
            report.share()
        );
    }
}

#[test]
fn a_used_up_limit_of_short_activities_is_used() {
    for (nodes, least) in [(3, 0.90), (10, 0.85)] {
        let report = kept(&cases::saturated(nodes));
        assert!(
            report.share() >= least,
            "{}: {}",
            report.scenario,
            report.share()
        );
    }
}

#[test]
fn a_rate_is_used_by_any_number_of_runtimes() {
    for (nodes, most) in [(1, 33), (2, 33), (8, 35), (50, 40)] {
        let report = kept(&cases::shared_rate(nodes, 150));
        assert!(
            report.last_start() <= secs(1 + most),
            "{}: {:?}",
            report.scenario,
            report.last_start()
        );
    }
}

#[test]
fn a_rate_is_not_kept_for_runtimes_in_which_nothing_waits() {
    let report = kept(&cases::unequal_rate(150));
    assert!(
        report.last_start() <= secs(4 + 13),
        "{:?}",
        report.last_start()
    );
}

#[test]
fn a_low_rate_starts_at_once_and_without_bursts() {
    let report = kept(&cases::low_rate(150));
    let starts = &report.keys.values().next().expect("a key").starts;
    assert!(starts[0] <= secs(2), "{:?}", starts[0]);
    assert!((29..=32).contains(&starts.len()), "{}", starts.len());
}

#[test]
fn a_newcomer_at_a_free_limit_waits_for_two_round_trips() {
    for trip in [20, 150, 400] {
        let report = kept(&cases::newcomer(trip));
        let newcomer = report.items.last().expect("an item");
        // A round trip takes up to 160 % of its mean.
        assert!(
            newcomer.wait() <= Some(millis(trip) * 2 * 16 / 10),
            "{trip}: {:?}",
            newcomer.wait()
        );
    }
}

#[test]
fn a_limit_far_from_used_up_costs_at_most_15_percent() {
    let free = run::<Protocol>(&cases::backlog(150, false))
        .last_end()
        .saturating_sub(secs(1));
    let limited = kept(&cases::backlog(150, true))
        .last_end()
        .saturating_sub(secs(1));
    assert!(limited <= free * 115 / 100, "{limited:?} of {free:?}");
}

#[test]
fn an_item_with_two_used_up_limits_starts() {
    for nodes in [2, 4] {
        for seed in 1..4 {
            let scenario = Scenario {
                seed,
                ..cases::two_keys(nodes, 20)
            };
            let report = kept(&scenario);
            let wait = cases::fourth_call(&report);
            assert!(wait <= secs(20), "{nodes} runtimes, seed {seed}: {wait:?}");
        }
    }
}

#[test]
fn an_item_of_high_priority_gets_the_next_permit() {
    for trip in [20, 150] {
        let report = kept(&cases::priority(trip));
        assert!(
            cases::passed(&report) <= 1,
            "{trip}: {}",
            cases::passed(&report)
        );
    }
}

#[test]
fn equal_weights_get_equal_shares_beside_a_fan_out() {
    let bobs = cases::bobs_of_the_first_60(&kept(&cases::weights(20)));
    assert!((27..=33).contains(&bobs), "{bobs}");
}

#[test]
fn a_thousand_keys_hold() {
    let report = kept(&cases::many_keys(1_000, 2, 150));
    assert_eq!(report.ended(), 3_000);
    assert!(
        report.longest_excess() < secs(4),
        "{:?}",
        report.longest_excess()
    );
}

#[test]
fn limits_cost_few_requests() {
    for nodes in [2, 3] {
        let report = kept(&cases::busy_key(nodes, 20, 5, 200));
        assert!(
            report.requests_per_start() <= 0.2,
            "{}: {}",
            report.scenario,
            report.requests_per_start()
        );
    }
    assert_eq!(run::<Protocol>(&cases::backlog(150, false)).requests, 0);
}

/// The bound: the age from which on a runtime stands in line, a look, and for each runtime in line eight hand-overs,
/// divided by the limit.
#[test]
fn items_that_only_one_runtime_can_run_wait_for_a_bounded_time() {
    for (nodes, limit) in [(3, 2), (8, 2), (20, 1)] {
        let report = kept(&cases::bound(nodes, limit, 20));
        let hand_overs = u32::try_from(nodes).unwrap_or(1) * 8 / u32::try_from(limit).unwrap_or(1);
        let bound: Duration = secs(10) + secs(5) + millis(160) * hand_overs;
        assert!(
            report.longest_excess() <= bound,
            "{}: {:?} of {bound:?}",
            report.scenario,
            report.longest_excess()
        );
    }
}

/// What *line* and *give* are for.
#[test]
fn items_that_only_one_runtime_can_run_do_not_starve_beside_a_flood() {
    let scenario = cases::bound_beside_flood(20);
    let wait = cases::fourth_bound(&kept(&scenario));
    let without = cases::fourth_bound(&run::<Protocol<true, false>>(&scenario));
    assert!(wait <= secs(20), "{wait:?}");
    assert!(without > wait * 2, "{without:?} and {wait:?}");
}
