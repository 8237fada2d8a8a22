//! The scenarios of the table of promises.

use std::time::Duration;

use crate::judge::Report;
use crate::machine::{Key, Priority, Rule};
use crate::world::{FaultKind, Random, Scenario, millis, secs};

/// The runs of one row share a name and differ in their parameters.
const KEY: &str = "activity=Call";

/// 50 runtimes, 50 permits, activities of 20 s.
pub(crate) fn long_activities(round_trip: u64) -> Scenario {
    let name = format!("50 runtimes, cap 50, 20 s, {round_trip} ms");
    let mut scenario = Scenario::new(&name, 50, round_trip).running(KEY, 50);
    for at in 0..240 {
        scenario.item(at % 50, secs(1), &[KEY], secs(20));
    }
    scenario.ends_at = secs(111);
    scenario
}

/// 240 starts at 8 a second.
pub(crate) fn shared_rate(nodes: usize, round_trip: u64) -> Scenario {
    let name = format!("240 starts at 8/s, {nodes} runtimes, {round_trip} ms");
    let mut scenario = Scenario::new(&name, nodes, round_trip).interval(KEY, millis(125));
    for at in 0..240 {
        scenario.item(at % nodes, secs(1), &[KEY], millis(100));
    }
    scenario.ends_at = secs(200);
    scenario
}

/// 80 starts at 8 a second that wait in one of 8 runtimes only; the others have had one each.
pub(crate) fn unequal_rate(round_trip: u64) -> Scenario {
    let name = format!("80 starts at 8/s in one of 8 runtimes, {round_trip} ms");
    let mut scenario = Scenario::new(&name, 8, round_trip).interval(KEY, millis(125));
    for node in 1..8 {
        scenario.item(node, secs(1), &[KEY], secs(60));
    }
    for _ in 0..80 {
        scenario.item(0, secs(4), &[KEY], millis(100)).is_bound = true;
    }
    scenario.ends_at = secs(200);
    scenario
}

/// A start in 10 s, 8 runtimes.
pub(crate) fn low_rate(round_trip: u64) -> Scenario {
    let name = format!("0.1/s, 8 runtimes, {round_trip} ms");
    let mut scenario = Scenario::new(&name, 8, round_trip).interval(KEY, secs(10));
    for at in 0..80 {
        scenario.item(at % 8, secs(1), &[KEY], millis(100));
    }
    scenario.ends_at = secs(301);
    scenario
}

/// A second runtime begins to use a limit that is not used up.
pub(crate) fn newcomer(round_trip: u64) -> Scenario {
    let name = format!("a newcomer, {round_trip} ms");
    let mut scenario = Scenario::new(&name, 2, round_trip).running(KEY, 100);
    scenario.network.lost = 0;
    for at in 0..200 {
        scenario.item(0, secs(1) + millis(100) * at, &[KEY], secs(1));
    }
    scenario.item(1, secs(12), &[KEY], secs(1));
    scenario.ends_at = secs(40);
    scenario
}

/// 500 activities, 4 runtimes with 10 workers each, a limit of 1,000 or none.
pub(crate) fn backlog(round_trip: u64, is_limited: bool) -> Scenario {
    let name = format!("500 activities, 4 runtimes, {round_trip} ms, limited: {is_limited}");
    let mut scenario = Scenario::new(&name, 4, round_trip);
    scenario.workers = 10;
    let keys: &[&str] = if is_limited { &[KEY] } else { &[] };
    if is_limited {
        scenario = scenario.running(KEY, 1_000);
    }
    for at in 0..500 {
        scenario.item(at % 4, secs(1), keys, millis(500));
    }
    scenario.ends_at = secs(60);
    scenario
}

/// Four calls need two keys, each used up by twice as much as it lets run.
pub(crate) fn two_keys(nodes: usize, round_trip: u64) -> Scenario {
    let tenant = "tenant=ada";
    let name = format!("two used-up keys, {nodes} runtimes, {round_trip} ms");
    let mut scenario = Scenario::new(&name, nodes, round_trip)
        .running(tenant, 5)
        .running(KEY, 2);
    for at in 0..300_u32 {
        let node = usize::try_from(at).unwrap_or(0) % nodes;
        scenario.item(node, secs(1) + millis(200) * at, &[tenant], secs(2));
    }
    for at in 0..100_u32 {
        let node = usize::try_from(at).unwrap_or(0) % nodes;
        scenario.item(node, secs(1) + millis(500) * at, &[KEY], secs(2));
    }
    for _ in 0..4 {
        scenario.item(0, secs(5), &[tenant, KEY], secs(1));
    }
    scenario.ends_at = secs(300);
    scenario
}

/// An item of high priority arrives behind 100 at a limit.
pub(crate) fn priority(round_trip: u64) -> Scenario {
    let name = format!("high priority behind 100, {round_trip} ms");
    let mut scenario = Scenario::new(&name, 2, round_trip).running(KEY, 4);
    for at in 0..100 {
        scenario.item(at % 2, secs(1), &[KEY], secs(1)).priority = Priority::Low;
    }
    scenario.item(0, secs(6), &[KEY], secs(1)).priority = Priority::High;
    scenario.ends_at = secs(60);
    scenario
}

/// Two tenants of equal weight share a limit. One has a fan-out.
pub(crate) fn weights(round_trip: u64) -> Scenario {
    let name = format!("equal weights, {round_trip} ms");
    let mut scenario = Scenario::new(&name, 1, round_trip).running(KEY, 4);
    for at in 0..130 {
        let tenant: Key = if at < 100 {
            "tenant=ada".into()
        } else {
            "tenant=bob".into()
        };
        let born = if at < 100 {
            secs(1)
        } else {
            secs(1) + millis(100)
        };
        scenario.item(0, born, &[KEY], millis(500)).share = Some((tenant, 1));
    }
    scenario.ends_at = secs(60);
    scenario
}

/// Many active keys.
pub(crate) fn many_keys(keys: usize, nodes: usize, round_trip: u64) -> Scenario {
    let name = format!("{keys} keys, {nodes} runtimes, {round_trip} ms");
    let mut scenario = Scenario::new(&name, nodes, round_trip);
    for at in 0..keys {
        scenario = scenario.running(&format!("tenant={at}"), 2);
    }
    for at in 0..keys {
        for turn in 0..3 {
            let born = secs(1) + millis(20 * (at as u64 % 50));
            let key = format!("tenant={at}");
            scenario.item((at + turn) % nodes, born, &[&key], secs(20));
        }
    }
    scenario.ends_at = secs(60);
    scenario
}

/// 20 starts a second of one key.
pub(crate) fn busy_key(nodes: usize, round_trip: u64, cap: i64, duration: u64) -> Scenario {
    let name = format!("20/s, cap {cap}, {duration} ms, {nodes} runtimes, {round_trip} ms");
    let mut scenario = Scenario::new(&name, nodes, round_trip).running(KEY, cap);
    for at in 0..1_000_u32 {
        let node = usize::try_from(at).unwrap_or(0) % nodes;
        scenario.item(node, secs(1) + millis(50) * at, &[KEY], millis(duration));
    }
    scenario.ends_at = secs(90);
    scenario
}

/// Fewer permits than runtimes, and items that only their runtime can run.
pub(crate) fn bound(nodes: usize, cap: i64, round_trip: u64) -> Scenario {
    let name = format!("bound items, cap {cap}, {nodes} runtimes, {round_trip} ms");
    let mut scenario = Scenario::new(&name, nodes, round_trip).running(KEY, cap);
    for at in 0..200_u32 {
        let node = usize::try_from(at).unwrap_or(0) % nodes;
        let item = scenario.item(
            node,
            secs(1) + secs(2) * at / u32::try_from(cap).unwrap_or(1),
            &[KEY],
            millis(500),
        );
        item.is_bound = true;
    }
    scenario.ends_at = secs(400);
    scenario
}

/// Four items that only one runtime can run, beside a flood of items of other runtimes.
pub(crate) fn bound_beside_flood(round_trip: u64) -> Scenario {
    let name = format!("4 bound items beside a flood, cap 2, 4 runtimes, {round_trip} ms");
    let mut scenario = Scenario::new(&name, 4, round_trip).running(KEY, 2);
    for at in 0..240_u32 {
        let node = 1 + usize::try_from(at).unwrap_or(0) % 3;
        scenario.item(node, secs(1) + millis(125) * at, &[KEY], millis(500));
    }
    for _ in 0..4 {
        scenario.item(0, secs(5), &[KEY], millis(500)).is_bound = true;
    }
    scenario.ends_at = secs(200);
    scenario
}

/// Returns the wait of the last of the four bound items of [`bound_beside_flood`].
pub(crate) fn fourth_bound(report: &Report) -> Duration {
    let waits = report
        .items
        .iter()
        .skip(240)
        .map(|item| item.wait().unwrap_or(Duration::MAX));
    waits.max().unwrap_or_default()
}

/// Random faults, and enough time afterwards.
pub(crate) fn storm(seed: u64) -> Scenario {
    let mut random = Random::new(seed);
    let nodes = usize::try_from(2 + random.below(4)).unwrap_or(2);
    let trip = [20, 150, 400][usize::try_from(random.below(3)).unwrap_or(0)];
    let mut scenario = Scenario::new("storm", nodes, trip)
        .running(KEY, 2)
        .running("b", 3);
    scenario.seed = seed;
    scenario.network.lost = 100;
    scenario.network.late = 30;
    let mut node = || usize::try_from(random.below(nodes as u64)).unwrap_or(0);
    for at in 0..60_u32 {
        let keys: &[&str] = if at % 3 == 0 { &["b", KEY] } else { &[KEY] };
        scenario.item(
            node(),
            secs(1) + millis(900) * at,
            keys,
            millis(500 + u64::from(at % 5) * 700),
        );
    }
    let crash = FaultKind::Crash {
        node: node(),
        restarts_after: Some(secs(20)),
    };
    scenario.fault(secs(15), crash);
    let pause = FaultKind::Pause {
        node: node(),
        time: secs(120),
    };
    scenario.fault(secs(25), pause);
    let pause = FaultKind::Pause {
        node: node(),
        time: secs(35),
    };
    scenario.fault(secs(30), pause);
    for (at, most) in [(20, 4), (40, 1), (60, 3)] {
        let rule = Rule {
            version: at + 1,
            running: Some(most),
            interval: None,
        };
        let at = secs(u64::try_from(at).unwrap_or(0));
        scenario.fault(at, FaultKind::SetRule("b".into(), rule));
    }
    scenario.ends_at = secs(400);
    scenario
}

/// Twice as many short activities as a limit lets run.
pub(crate) fn saturated(nodes: usize) -> Scenario {
    let name = format!("twice the load of cap 50, 200 ms, {nodes} runtimes, 150 ms");
    let mut scenario = Scenario::new(&name, nodes, 150).running(KEY, 50);
    for at in 0..3_000_u32 {
        let node = usize::try_from(at).unwrap_or(0) % nodes;
        scenario.item(node, secs(1) + millis(4) * at, &[KEY], millis(200));
    }
    scenario.ends_at = secs(60);
    scenario
}

/// Returns the wait of the fourth call of [`two_keys`].
pub(crate) fn fourth_call(report: &Report) -> Duration {
    let calls = report.items.iter().filter(|item| item.keys.len() == 2);
    calls
        .map(|item| item.wait().unwrap_or(Duration::MAX))
        .max()
        .unwrap_or_default()
}

/// Returns how many starts passed the item of high priority of [`priority`]: those of its own runtime, one more than a
/// round trip later.
pub(crate) fn passed(report: &Report) -> usize {
    let Some(high) = report.items.last() else {
        return 0;
    };
    let waits = high.born..high.started.unwrap_or(Duration::MAX);
    let passing = report
        .items
        .iter()
        .filter(|item| item.priority > high.priority && item.node == high.node);
    passing
        .filter(|item| item.started.is_some_and(|started| waits.contains(&started)))
        .count()
}

/// Returns how many of the first 60 starts of [`weights`] are those of the tenant without the fan-out.
pub(crate) fn bobs_of_the_first_60(report: &Report) -> usize {
    let mut starts: Vec<_> = report
        .items
        .iter()
        .enumerate()
        .map(|(at, item)| (item.started, at))
        .collect();
    starts.sort();
    starts
        .iter()
        .filter(|(started, _)| started.is_some())
        .take(60)
        .filter(|(_, at)| *at >= 100)
        .count()
}

/// Returns the violations of [`storm`], without those of the limit that is lowered: runtimes learn of it within 10 s.
pub(crate) fn excused(report: &Report) -> Vec<String> {
    let mut violations = report.violations();
    violations.retain(|violation| !violation.contains("limit of b ran"));
    violations
}
