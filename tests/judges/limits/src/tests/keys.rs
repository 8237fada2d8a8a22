//! Items with several keys: they end with the order of keys, and deadlock without it.

use crate::machine::acquisition_order;
use crate::protocol::Protocol;
use crate::world::{Random, Scenario, millis, run, secs};

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

/// Items with random sets of used-up keys, named in a random order.
fn random_sets(seed: u64) -> Scenario {
    let mut random = Random::new(seed);
    let nodes = 2 + random.below(2);
    let mut scenario = Scenario::new(
        "random sets of keys",
        usize::try_from(nodes).unwrap_or(2),
        20,
    );
    scenario.seed = seed;
    for key in KEYS {
        scenario = scenario.running(key, 1 + i64::from(random.chance(300)));
    }
    for _ in 0..24 {
        let mut keys = KEYS.to_vec();
        for at in 1..keys.len() {
            keys.swap(
                at,
                usize::try_from(random.below(at as u64 + 1)).unwrap_or(0),
            );
        }
        keys.truncate(1 + usize::try_from(random.below(3)).unwrap_or(0));
        let node = usize::try_from(random.below(nodes)).unwrap_or(0);
        let item = scenario.item(node, secs(1), &keys, millis(500));
        item.is_bound = random.chance(500);
    }
    scenario.ends_at = secs(240);
    scenario
}

#[test]
fn items_with_random_sets_of_keys_all_end() {
    for seed in 0..12 {
        let scenario = random_sets(seed);
        let report = run::<Protocol>(&scenario);
        assert_eq!(report.violations(), Vec::<String>::new(), "seed {seed}");
        assert_eq!(report.ended(), scenario.items.len(), "seed {seed}");
    }
}

#[test]
fn items_deadlock_without_the_order_of_keys() {
    let is_stuck = |seed: u64| {
        let scenario = random_sets(seed);
        run::<Protocol<false>>(&scenario).ended() < scenario.items.len()
    };
    assert!((0..12).any(is_stuck));
}

#[test]
fn smaller_limits_come_first_and_rates_last() {
    let mut scenario = Scenario::new("order", 1, 20).running("large", 10);
    scenario = scenario
        .interval("rate", secs(1))
        .running("small", 2)
        .running("equal", 2);
    let order = acquisition_order(scenario.rules);
    let names: Vec<_> = order.iter().map(|key| &**key).collect();
    assert_eq!(names, ["equal", "small", "large", "rate"]);
}
