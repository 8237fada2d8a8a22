//! Neither others nor the throughput suffer: workers, dispatchers, limits, priorities and sessions are shared as before.

use super::*;

#[tokio::test(start_paused = true)]
async fn throughput_with_scarce_workers() {
    let mut slower = Vec::new();
    for (workers, activity, code, latency) in [
        (1, 1, 0, 5),
        (1, 1, 6, 5),
        (1, 1, 12, 5),
        (2, 1, 8, 5),
        (1, 1, 4, 2),
        (1, 10, 15, 10),
    ] {
        for (shape, instances) in [
            ("chains", many("plain", 1, 8, 12)),
            ("fans", many("plain", 20, 1, 4)),
            ("one fan", many("plain", 60, 1, 1)),
        ] {
            let size = Size::new(workers, activity, code, latency);
            let what = format!(
                "{workers} workers, activity {activity}, code {code}, latency {latency}, {shape}"
            );
            let runs = both(&what, 1, &size, &instances, nothing).await;
            let Some((never, handed)) = runs else { return };
            if handed.took > never.took * 11 / 10 {
                slower.push((what, never.took, handed.took));
            }
        }
    }
    assert!(slower.is_empty(), "{slower:#?}");
}

/// A chain must not go before activities that wait for the only worker.
#[tokio::test(start_paused = true)]
async fn a_chain_delays_no_other_instance() {
    let size = Size::new(1, 3, 0, 5);
    let mut all = many("plain", 1, 120, 1);
    all.push((100, "plain-20-1-9".to_owned()));
    all.push((150, "plain-1-1-8".to_owned()));
    let runs = both("a chain and others", 1, &size, &all, nothing).await;
    let Some((never, handed)) = runs else { return };
    let mut slower = Vec::new();
    for instance in ["plain-20-1-9", "plain-1-1-8"] {
        let times = (never.time_of(instance), handed.time_of(instance));
        println!("{instance}: {times:?}");
        if times.1 > times.0 * 12 / 10 + ms(20) {
            slower.push((instance, times));
        }
    }
    assert!(slower.is_empty(), "{slower:?}");
}

/// Activities of several chains with one worker: nobody goes far ahead.
#[tokio::test(start_paused = true)]
async fn many_chains_share_a_worker() {
    let size = Size::new(1, 3, 0, 5);
    let all = many("plain", 1, 15, 10);
    let runs = both("ten chains", 1, &size, &all, nothing).await;
    let Some((never, handed)) = runs else { return };
    let spread = |run: &Run| {
        let times = run.times();
        (times[0], times[times.len() - 1], run.mean())
    };
    println!(
        "first, last, mean: {:?} {:?}",
        spread(&never),
        spread(&handed)
    );
    assert!(handed.took <= never.took * 11 / 10);
}

/// Those of a high priority that wait for the only worker come first.
#[tokio::test(start_paused = true)]
async fn a_chain_of_low_priority_delays_no_high_one() {
    let size = Size::new(1, 3, 0, 5);
    let mut all = many("low", 1, 120, 1);
    all.push((100, "high-20-1-9".to_owned()));
    all.push((150, "high-1-1-8".to_owned()));
    let rules = async |provider: &CosmosDBProvider| {
        set(provider, rule("tag=low").priority(Priority::Low)).await;
        set(provider, rule("tag=high").priority(Priority::High)).await;
    };
    let runs = both("priorities", 1, &size, &all, rules).await;
    let Some((never, handed)) = runs else { return };
    let mut slower = Vec::new();
    for instance in ["high-20-1-9", "high-1-1-8"] {
        let times = (never.time_of(instance), handed.time_of(instance));
        println!("{instance}: {times:?}");
        if times.1 > times.0 * 12 / 10 + ms(20) {
            slower.push((instance, times));
        }
    }
    assert!(slower.is_empty(), "{slower:?}");
}

#[tokio::test(start_paused = true)]
async fn caps_that_are_almost_used() {
    let mut slower = Vec::new();
    for (sites, cap, code, every) in [
        (1_usize, 2_u32, 0, 12_u64),
        (1, 2, 5, 12),
        (1, 2, 10, 12),
        (1, 1, 10, 26),
        (2, 1, 8, 26),
        (2, 2, 10, 13),
        (2, 4, 10, 7),
        (3, 3, 10, 9),
    ] {
        let size = Size::new(6, 10, code, 5);
        let all: Vec<_> = (0..100)
            .map(|number| (number * every, format!("bank-1-1-{number}")))
            .collect();
        let rules = async |provider: &CosmosDBProvider| {
            set(provider, rule("tag=bank").running(cap)).await;
        };
        let what = format!("{sites} sites, cap {cap}, code {code}, one every {every} ms");
        let runs = both(&what, sites, &size, &all, rules).await;
        let Some((never, handed)) = runs else { return };
        if handed.mean() > never.mean() + ms(20) || handed.took > never.took * 11 / 10 {
            slower.push((what, never.mean(), handed.mean()));
        }
    }
    assert!(slower.is_empty(), "{slower:#?}");
}

#[tokio::test(start_paused = true)]
async fn rates_that_are_almost_used() {
    let size = Size::new(6, 10, 5, 5);
    let all: Vec<_> = (0..100)
        .map(|number| (number * 22, format!("bank-1-1-{number}")))
        .collect();
    let rules = async |provider: &CosmosDBProvider| {
        set(provider, rule("tag=bank").starts_per_second(50.0)).await;
    };
    for sites in [1, 2] {
        let runs = both("rates", sites, &size, &all, rules).await;
        let Some((never, handed)) = runs else { return };
        assert!(handed.mean() <= never.mean() + ms(20));
    }
}

/// How many instances run is limited: a first turn must not be begun without a permit.
#[tokio::test(start_paused = true)]
async fn caps_of_instances() {
    let size = Size::new(4, 10, 0, 5);
    let all: Vec<_> = (0..40)
        .map(|number| (number * 5, format!("plain-1-3-{number}")))
        .collect();
    let rules = async |provider: &CosmosDBProvider| {
        set(provider, rule("orchestration=Wait").running(3)).await;
    };
    let runs = both("instances", 1, &size, &all, rules).await;
    let Some((never, handed)) = runs else { return };
    assert!(handed.took <= never.took * 11 / 10);
}

#[tokio::test(start_paused = true)]
async fn without_a_cache() {
    let mut slower = Vec::new();
    for (shape, instances) in [
        ("chains", many("plain", 1, 8, 12)),
        ("one chain", many("plain", 1, 30, 1)),
        ("fans", many("plain", 10, 2, 4)),
    ] {
        let size = Size {
            cache: Some(0),
            ..Size::new(4, 3, 0, 5)
        };
        let runs = both(&format!("no cache, {shape}"), 1, &size, &instances, nothing).await;
        let Some((never, handed)) = runs else { return };
        if handed.took > never.took * 11 / 10 || handed.requests > never.requests * 11 / 10 {
            slower.push((shape, never.shown(), handed.shown()));
        }
    }
    assert!(slower.is_empty(), "{slower:#?}");
}

#[tokio::test(start_paused = true)]
async fn sessions() {
    let size = Size::new(4, 3, 2, 5);
    let all = [many("sess", 4, 4, 6), many("sess", 1, 10, 4)].concat();
    for sites in [1, 2] {
        let runs = both("sessions", sites, &size, &all, nothing).await;
        let Some((never, handed)) = runs else { return };
        assert!(handed.took <= never.took * 12 / 10);
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_instances() {
    let size = Size::new(8, 2, 1, 3);
    let all = many("plain", 1, 2, 1_000);
    let runs = both("a thousand", 1, &size, &all, nothing).await;
    let Some((never, handed)) = runs else { return };
    let longest = |run: &Run| run.tally.starts.iter().copied().max();
    println!(
        "longest start: {:?}, {:?}",
        longest(&never),
        longest(&handed)
    );
    assert!(handed.took <= never.took * 11 / 10);
    assert!(longest(&handed) <= longest(&never).map(|it| it + ms(40)));
}

/// Single activities of others, while a chain runs, for the only worker.
#[tokio::test(start_paused = true)]
async fn a_chain_delays_no_single_activities() {
    let mut slower = Vec::new();
    for (workers, depth) in [(1, 200), (2, 200)] {
        let size = Size::new(workers, 3, 0, 5);
        let mut all = many("plain", 1, depth, u64::try_from(workers).expect("few"));
        all.extend((0..12).map(|it| (50 + 40 * it, format!("plain-1-1-{}", 100 + it))));
        let what = format!("chains, {workers} workers");
        let runs = both(&what, 1, &size, &all, nothing).await;
        let Some((never, handed)) = runs else { return };
        let of = |run: &Run| -> Vec<Duration> {
            all.iter()
                .filter(|(at, _)| *at > 0)
                .map(|(_, it)| run.time_of(it))
                .collect()
        };
        let (before, after) = (of(&never), of(&handed));
        println!("{before:?}\n{after:?}");
        let (most, now) = (before.iter().max(), after.iter().max());
        if now > most.map(|it| *it + ms(40)).as_ref() {
            slower.push((what, before, after));
        }
    }
    assert!(slower.is_empty(), "{slower:?}");
}

/// One dispatcher: completions of one instance do not go before the turns of others for long.
#[tokio::test(start_paused = true)]
async fn a_single_dispatcher() {
    let mut slower = Vec::new();
    for (shape, width, depth) in [("chains", 1, 60), ("fans", 8, 20)] {
        let size = Size {
            dispatchers: 1,
            ..Size::new(16, 2, 3, 5)
        };
        let mut all = many("plain", width, depth, 2);
        all.extend((0..10).map(|it| (50 + 40 * it, format!("plain-1-2-{}", 100 + it))));
        let runs = both(&format!("one dispatcher, {shape}"), 1, &size, &all, nothing).await;
        let Some((never, handed)) = runs else { return };
        let of = |run: &Run| -> Vec<Duration> {
            all.iter()
                .filter(|(at, _)| *at > 0)
                .map(|(_, it)| run.time_of(it))
                .collect()
        };
        let (before, after) = (of(&never), of(&handed));
        println!("{before:?}\n{after:?}");
        if after.iter().max() > before.iter().max().map(|it| *it + ms(40)).as_ref() {
            slower.push((shape, before, after));
        }
        if handed.took > never.took * 11 / 10 {
            slower.push((shape, vec![never.took], vec![handed.took]));
        }
    }
    assert!(slower.is_empty(), "{slower:?}");
}

/// Activities of others that wait for the only worker, while a chain of longer activities runs.
#[tokio::test(start_paused = true)]
async fn a_chain_of_longer_activities_starves_nobody() {
    let mut slower = Vec::new();
    for (workers, activity) in [(1_usize, 60), (1, 150), (2, 60)] {
        let size = Size::new(workers, activity, 0, 5);
        let mut all = many("plain", 1, 80, u64::try_from(workers).expect("few"));
        let every = activity * 4;
        all.extend((0..10).map(|it| (100 + every * it, format!("plain-1-1-{}", 100 + it))));
        let what = format!("longer chains, {workers} workers, {activity} ms");
        let runs = both(&what, 1, &size, &all, nothing).await;
        let Some((never, handed)) = runs else { return };
        let of = |run: &Run| -> Vec<Duration> {
            all.iter()
                .filter(|(at, _)| *at > 0)
                .map(|(_, it)| run.time_of(it))
                .collect()
        };
        let (before, after) = (of(&never), of(&handed));
        println!("   never {before:?}\n   handed over {after:?}");
        if after.iter().max() > before.iter().max().map(|it| *it + ms(40)).as_ref() {
            slower.push((what, before, after));
        }
    }
    assert!(slower.is_empty(), "{slower:#?}");
}

/// The same for those of a high priority. The chain has none.
#[tokio::test(start_paused = true)]
async fn a_chain_starves_no_high_priority() {
    let size = Size::new(1, 60, 0, 5);
    let mut all = many("plain", 1, 80, 1);
    all.extend((0..10).map(|it| (100 + 240 * it, format!("high-1-1-{}", 100 + it))));
    let rules = async |provider: &CosmosDBProvider| {
        set(provider, rule("tag=high").priority(Priority::High)).await;
    };
    let runs = both("high priority", 1, &size, &all, rules).await;
    let Some((never, handed)) = runs else { return };
    let of = |run: &Run| -> Vec<Duration> {
        all.iter()
            .filter(|(at, _)| *at > 0)
            .map(|(_, it)| run.time_of(it))
            .collect()
    };
    let (before, after) = (of(&never), of(&handed));
    println!("   never {before:?}\n   handed over {after:?}");
    assert!(
        after.iter().max() <= before.iter().max().map(|it| *it + ms(40)).as_ref(),
        "{before:?} {after:?}"
    );
}

/// Keys with shares, one of which has a long chain; the others wait for the only worker.
#[tokio::test(start_paused = true)]
async fn a_chain_takes_no_share_of_another_key() {
    let size = Size::new(1, 60, 0, 5);
    let mut all = many("plain", 1, 80, 1);
    all.extend((0..10).map(|it| (100 + 240 * it, format!("ada-1-1-{}", 100 + it))));
    let rules = async |provider: &CosmosDBProvider| {
        set(provider, rule("tag=ada").weight(100)).await;
    };
    let runs = both("shares of a key", 1, &size, &all, rules).await;
    let Some((never, handed)) = runs else { return };
    let of = |run: &Run| -> Vec<Duration> {
        all.iter()
            .filter(|(at, _)| *at > 0)
            .map(|(_, it)| run.time_of(it))
            .collect()
    };
    let (before, after) = (of(&never), of(&handed));
    println!("   never {before:?}\n   handed over {after:?}");
    assert!(
        after.iter().max() <= before.iter().max().map(|it| *it + ms(40)).as_ref(),
        "{before:?} {after:?}"
    );
}

/// A process without work and one with a chain share a container: the waiting activities of the busy process
/// are taken by the other.
#[tokio::test(start_paused = true)]
async fn two_processes_share_scarce_workers() {
    let mut slower = Vec::new();
    for (activity, code) in [(3, 0), (20, 10), (60, 0)] {
        let size = Size::new(1, activity, code, 5);
        let all = [many("plain", 1, 20, 4), many("plain", 6, 1, 6)].concat();
        let what = format!("two processes, {activity} ms, code {code}");
        let runs = both(&what, 2, &size, &all, nothing).await;
        let Some((never, handed)) = runs else { return };
        if handed.took > never.took * 11 / 10 {
            slower.push((what, never.took, handed.took));
        }
    }
    assert!(slower.is_empty(), "{slower:?}");
}

#[ignore = "takes a minute"]
#[tokio::test(start_paused = true)]
async fn throughput_of_other_sizes() {
    let mut slower = Vec::new();
    for (workers, dispatchers, activity, code, latency) in [
        (2, 2, 3, 5, 5),
        (2, 2, 10, 8, 10),
        (16, 6, 2, 5, 5),
        (16, 2, 2, 5, 5),
        (4, 4, 0, 3, 3),
        (4, 4, 0, 1, 3),
        (8, 8, 5, 10, 4),
    ] {
        for (shape, instances) in [
            ("chains", many("plain", 1, 6, 24)),
            ("fans", many("plain", 30, 1, 6)),
            ("one fan", many("plain", 250, 1, 1)),
            ("lanes", many("plain", 6, 6, 5)),
        ] {
            let size = Size {
                dispatchers,
                ..Size::new(workers, activity, code, latency)
            };
            let what = format!(
                "{workers} workers, {dispatchers} dispatchers, activity {activity}, code {code}, latency {latency}, {shape}"
            );
            let runs = both(&what, 1, &size, &instances, nothing).await;
            let Some((never, handed)) = runs else { return };
            if handed.took > never.took * 11 / 10 {
                slower.push((what, never.took, handed.took));
            }
        }
    }
    assert!(slower.is_empty(), "{slower:#?}");
}
