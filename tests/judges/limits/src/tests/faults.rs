//! Worlds with crashes, pauses, lost answers and changes of rules.

use crate::cases::{excused, storm};
use crate::machine::Rule;
use crate::protocol::Protocol;
use crate::world::{FaultKind, Scenario, millis, run, secs};

const KEY: &str = "activity=Call";

#[test]
fn no_fault_exceeds_a_limit_or_leaves_an_item_behind() {
    for seed in 0..60 {
        let scenario = storm(seed);
        let report = run::<Protocol>(&scenario);
        let violations = excused(&report);
        assert_eq!(violations, Vec::<String>::new(), "seed {seed}");
        let left: Vec<_> = report
            .items
            .iter()
            .filter(|item| item.ended.is_none())
            .collect();
        assert!(
            left.is_empty(),
            "seed {seed}: {left:?}, {:?}",
            scenario.faults
        );
    }
}

#[test]
fn the_permits_of_a_dead_process_return_within_50_seconds() {
    let mut scenario = Scenario::new("a dead process", 2, 150).running(KEY, 2);
    for _ in 0..2 {
        scenario.item(0, secs(1), &[KEY], secs(100)).is_bound = true;
    }
    scenario.item(1, secs(2), &[KEY], secs(1));
    scenario.fault(
        secs(12),
        FaultKind::Crash {
            node: 0,
            restarts_after: None,
        },
    );
    let report = run::<Protocol>(&scenario);
    let wait = report.items[2].started.expect("it starts");
    assert!(wait > secs(35) && wait < secs(12 + 50 + 5), "{wait:?}");
    assert_eq!(report.violations(), Vec::<String>::new());
}

#[test]
fn what_runs_under_a_new_limit_is_counted() {
    let mut scenario = Scenario::new("a lowered limit", 2, 20).running(KEY, 8);
    for at in 0..40 {
        scenario.item(at % 2, secs(1), &[KEY], secs(4));
    }
    let rule = Rule {
        version: 2,
        running: Some(2),
        interval: None,
    };
    scenario.fault(secs(3), FaultKind::SetRule(KEY.into(), rule));
    let report = run::<Protocol>(&scenario);
    let starts = &report.keys[KEY].starts;
    // The two runtimes know the rule after 10 s, and what ran then ends 4 s later.
    let later: Vec<_> = starts.iter().filter(|at| **at > secs(17)).collect();
    let most = (0..later.len()).map(|at| {
        later[at..]
            .iter()
            .take_while(|start| ***start < *later[at] + secs(4))
            .count()
    });
    assert!(most.max() <= Some(2), "{later:?}");
    assert_eq!(report.faults, Vec::<String>::new());
}

/// They have no permits of the new limit.
#[test]
fn what_runs_before_a_first_limit_is_counted() {
    let mut scenario = Scenario::new("a first limit", 2, 20).interval(KEY, millis(10));
    for _ in 0..20 {
        scenario.item(0, secs(1), &[KEY], secs(20)).is_bound = true;
    }
    let rule = Rule {
        version: 2,
        running: Some(4),
        interval: None,
    };
    scenario.fault(secs(3), FaultKind::SetRule(KEY.into(), rule));
    // In a runtime that runs nothing.
    for _ in 0..20 {
        scenario.item(1, secs(15), &[KEY], secs(1)).is_bound = true;
    }
    let report = run::<Protocol>(&scenario);
    // The runtimes know the rule after 10 s, and the first of the 20 ends at 21 s.
    let (known, ended) = (secs(14), secs(21));
    let starts = &report.keys[KEY].starts;
    let beside: Vec<_> = starts
        .iter()
        .filter(|at| known < **at && **at < ended)
        .collect();
    assert!(beside.is_empty(), "{beside:?}");
    assert_eq!(report.ended(), 40);
    assert_eq!(report.faults, Vec::<String>::new());
}

#[test]
fn items_with_two_used_up_limits_start_although_their_process_is_dead() {
    let mut scenario = Scenario::new("two keys of a dead process", 4, 20)
        .running("small", 2)
        .running("large", 3);
    for at in 0..60 {
        scenario.item(1 + at % 3, secs(1), &["large"], millis(500));
    }
    for _ in 0..4 {
        scenario.item(0, secs(4), &["small", "large"], millis(500));
    }
    for at in 0..240 {
        scenario.item(1 + at % 3, secs(7), &["large"], millis(500));
    }
    scenario.fault(
        secs(3),
        FaultKind::Crash {
            node: 0,
            restarts_after: None,
        },
    );
    scenario.ends_at = secs(120);
    let report = run::<Protocol>(&scenario);
    assert_eq!(report.violations(), Vec::<String>::new());
    let starts: Vec<_> = report.items[60..64]
        .iter()
        .map(|item| item.started)
        .collect();
    assert!(
        starts.iter().all(|at| *at < Some(secs(30)) && at.is_some()),
        "{starts:?}"
    );
}
