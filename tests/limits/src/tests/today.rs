//! Today's algorithm: the judge finds the faults C2 to C9 of the list of 2026-11-27.

use crate::cases;
use crate::today::Today;
use crate::world::{Scenario, millis, run, secs};

#[test]
fn c2_an_item_with_two_used_up_limits_starves() {
    let wait = |seed| {
        cases::fourth_call(&run::<Today>(&Scenario {
            seed,
            ..cases::two_keys(4, 20)
        }))
    };
    let longest = (1..4).map(wait).max();
    assert!(longest > Some(secs(20)), "{longest:?}");
}

#[test]
fn c3_fifty_runtimes_exceed_a_limit() {
    for trip in [150, 400] {
        assert!(run::<Today>(&cases::long_activities(trip)).over() > 0);
    }
}

#[test]
fn c4_what_waits_for_a_limit_starts_by_age() {
    assert!(cases::passed(&run::<Today>(&cases::priority(20))) > 1);
    assert!(cases::bobs_of_the_first_60(&run::<Today>(&cases::weights(20))) < 27);
}

#[test]
fn c5_eight_runtimes_do_not_keep_to_a_rate() {
    let report = run::<Today>(&cases::shared_rate(8, 150));
    assert!(
        report.last_start() > secs(1 + 35) || !report.violations().is_empty(),
        "{report:?}"
    );
}

#[test]
fn c6_a_rate_is_kept_for_runtimes_in_which_nothing_waits() {
    let report = run::<Today>(&cases::unequal_rate(150));
    assert!(
        report.last_start() > secs(4 + 20),
        "{:?}",
        report.last_start()
    );
}

#[test]
fn c7_low_rates_come_late_and_in_bursts() {
    let report = run::<Today>(&cases::low_rate(150));
    let starts = &report.keys.values().next().expect("a key").starts;
    assert!(starts.len() < 29 || starts[0] > secs(2), "{starts:?}");
    assert!(!report.violations().is_empty());
}

#[test]
fn c8_a_limit_far_from_used_up_delays() {
    let report = run::<Today>(&cases::newcomer(150));
    let newcomer = report.items.last().expect("an item");
    assert!(
        newcomer.wait() > Some(millis(150) * 2 * 16 / 10),
        "{:?}",
        newcomer.wait()
    );
    let free = run::<Today>(&cases::backlog(150, false))
        .last_end()
        .saturating_sub(secs(1));
    let limited = run::<Today>(&cases::backlog(150, true))
        .last_end()
        .saturating_sub(secs(1));
    assert!(limited > free * 115 / 100, "{limited:?} of {free:?}");
}

#[test]
fn c9_a_permit_goes_to_the_next_runtime_by_a_hash() {
    let report = run::<Today>(&cases::bound(20, 1, 20));
    assert!(
        report.longest_excess() > secs(120),
        "{:?}",
        report.longest_excess()
    );
}
