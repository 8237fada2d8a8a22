//! Neither others nor the throughput suffer: workers, dispatchers, limits, priorities and sessions are shared as before.

use super::*;

/// Runs each case without and with hand-overs. Fails with the names of those that become worse.
async fn none_is_worse(
    cases: impl IntoIterator<Item = Case>,
    is_worse: impl Fn(&Case, &Run, &Run) -> bool,
) {
    let mut worse = Vec::new();
    for case in cases {
        let (never, handed) = or_skip!(both(&case).await);
        if is_worse(&case, &never, &handed) {
            let times = (never.later(&case), handed.later(&case));
            worse.push((case.what, never.shown(), handed.shown(), times));
        }
    }
    assert!(worse.is_empty(), "{worse:#?}");
}

/// The throughput falls by more than a tenth.
fn takes_longer(_: &Case, never: &Run, handed: &Run) -> bool {
    handed.took > never.took * 11 / 10
}

/// Of the instances that start later, the slowest one takes longer.
fn is_starved(case: &Case, never: &Run, handed: &Run) -> bool {
    let (before, after) = (never.later(case), handed.later(case));
    after.iter().max() > before.iter().max().map(|it| *it + ms(40)).as_ref()
}

/// An instance that starts later takes longer.
fn is_delayed(case: &Case, never: &Run, handed: &Run) -> bool {
    let times = never.later(case).into_iter().zip(handed.later(case));
    times
        .inspect(|times| println!("{times:?}"))
        .any(|(before, after)| after > before * 12 / 10 + ms(20))
}

/// Instances of this shape, `count` of them, one every `every` milliseconds after `from`.
fn later(shape: &str, from: u64, every: u64, count: u64) -> Vec<(u64, String)> {
    let of = |it| (from + every * it, format!("{shape}-{}", 100 + it));
    (0..count).map(of).collect()
}

#[tokio::test(start_paused = true)]
async fn throughput_with_scarce_workers() {
    let sizes = [
        (1, 1, 0, 5),
        (1, 1, 6, 5),
        (1, 1, 12, 5),
        (2, 1, 8, 5),
        (1, 1, 4, 2),
        (1, 10, 15, 10),
    ];
    let cases = sizes
        .into_iter()
        .flat_map(|(workers, activity, code, latency)| {
            let size = Size::new(workers, activity, code, latency);
            [(1, 8, 12), (20, 1, 4), (60, 1, 1)].map(|(width, depth, count)| {
                let all = many("plain", width, depth, count);
                Case::new(format!("{count} of {width}-{depth}"), size.clone(), all)
            })
        });
    none_is_worse(cases, takes_longer).await;
}

/// A chain must not go before activities that wait for the only worker.
#[tokio::test(start_paused = true)]
async fn a_chain_delays_no_other_instance() {
    let mut all = many("plain", 1, 120, 1);
    all.push((100, "plain-20-1-9".to_owned()));
    all.push((150, "plain-1-1-8".to_owned()));
    let case = Case::new("a chain and others", Size::new(1, 3, 0, 5), all);
    none_is_worse([case], is_delayed).await;
}

/// Activities of several chains with one worker: nobody goes far ahead.
#[tokio::test(start_paused = true)]
async fn many_chains_share_a_worker() {
    let case = Case::new(
        "ten chains",
        Size::new(1, 3, 0, 5),
        many("plain", 1, 15, 10),
    );
    none_is_worse([case], takes_longer).await;
}

/// Those of a high priority that wait for the only worker come first.
#[tokio::test(start_paused = true)]
async fn a_chain_of_low_priority_delays_no_high_one() {
    let mut all = many("low", 1, 120, 1);
    all.push((100, "high-20-1-9".to_owned()));
    all.push((150, "high-1-1-8".to_owned()));
    let low = rule("tag=low").priority(Priority::Low);
    let high = rule("tag=high").priority(Priority::High);
    let case = Case::new("priorities", Size::new(1, 3, 0, 5), all).under([low, high]);
    none_is_worse([case], is_delayed).await;
}

#[tokio::test(start_paused = true)]
async fn caps_that_are_almost_used() {
    let cases = [
        (1_usize, 2_u32, 0, 12_u64),
        (1, 2, 5, 12),
        (1, 2, 10, 12),
        (1, 1, 10, 26),
        (2, 1, 8, 26),
        (2, 2, 10, 13),
        (2, 4, 10, 7),
        (3, 3, 10, 9),
    ]
    .map(|(sites, cap, code, every)| {
        let what = format!("{sites} sites, cap {cap}, code {code}, one every {every} ms");
        let all = later("bank-1-1", 0, every, 100);
        let case = Case::new(what, Size::new(6, 10, code, 5), all);
        case.on(sites).under([rule("tag=bank").running(cap)])
    });
    none_is_worse(cases, |case, never, handed| {
        handed.mean() > never.mean() + ms(20) || takes_longer(case, never, handed)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn rates_that_are_almost_used() {
    let cases = [1, 2].map(|sites| {
        let all = later("bank-1-1", 0, 22, 100);
        let case = Case::new(format!("rates, {sites} sites"), Size::new(6, 10, 5, 5), all);
        let rate = rule("tag=bank").starts_per_second(50.0);
        case.on(sites).under([rate])
    });
    none_is_worse(cases, |_, never, handed| {
        handed.mean() > never.mean() + ms(20)
    })
    .await;
}

/// How many instances run is limited: a first turn must not be begun without a permit.
#[tokio::test(start_paused = true)]
async fn caps_of_instances() {
    let all = later("plain-1-3", 0, 5, 40);
    let case = Case::new("instances", Size::new(4, 10, 0, 5), all);
    let case = case.under([rule("orchestration=Wait").running(3)]);
    none_is_worse([case], takes_longer).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_cache() {
    let cases = [
        ("chains", 1, 8, 12),
        ("one chain", 1, 30, 1),
        ("fans", 10, 2, 4),
    ];
    let cases = cases.map(|(shape, width, depth, count)| {
        let mut size = Size::new(4, 3, 0, 5);
        size.cache = Some(0);
        let what = format!("no cache, {shape}");
        Case::new(what, size, many("plain", width, depth, count))
    });
    none_is_worse(cases, |case, never, handed| {
        takes_longer(case, never, handed) || handed.requests > never.requests * 11 / 10
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn sessions() {
    let cases = [1, 2].map(|sites| {
        let all = [many("sess", 4, 4, 6), many("sess", 1, 10, 4)].concat();
        let what = format!("sessions, {sites} sites");
        Case::new(what, Size::new(4, 3, 2, 5), all).on(sites)
    });
    none_is_worse(cases, |_, never, handed| handed.took > never.took * 12 / 10).await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_instances() {
    let all = many("plain", 1, 2, 1_000);
    let case = Case::new("a thousand", Size::new(8, 2, 1, 3), all);
    none_is_worse([case], |case, never, handed| {
        let longest = |run: &Run| run.tally.starts.iter().copied().max();
        let is_started_late = longest(handed) > longest(never).map(|it| it + ms(40));
        takes_longer(case, never, handed) || is_started_late
    })
    .await;
}

/// Single activities of others, while a chain runs, for the only worker.
#[tokio::test(start_paused = true)]
async fn a_chain_delays_no_single_activities() {
    let cases = [(1, 1), (2, 2)].map(|(workers, chains)| {
        let all = [
            many("plain", 1, 200, chains),
            later("plain-1-1", 50, 40, 12),
        ]
        .concat();
        let what = format!("chains, {workers} workers");
        Case::new(what, Size::new(workers, 3, 0, 5), all)
    });
    none_is_worse(cases, is_starved).await;
}

/// One dispatcher: completions of one instance do not go before the turns of others for long.
#[tokio::test(start_paused = true)]
async fn a_single_dispatcher() {
    let cases = [("chains", 1, 60), ("fans", 8, 20)].map(|(shape, width, depth)| {
        let mut size = Size::new(16, 2, 3, 5);
        size.dispatchers = 1;
        let all = [
            many("plain", width, depth, 2),
            later("plain-1-2", 50, 40, 10),
        ]
        .concat();
        Case::new(format!("one dispatcher, {shape}"), size, all)
    });
    none_is_worse(cases, |case, never, handed| {
        is_starved(case, never, handed) || takes_longer(case, never, handed)
    })
    .await;
}

/// Activities of others that wait for the only worker, while a chain of longer activities runs.
#[tokio::test(start_paused = true)]
async fn a_chain_of_longer_activities_starves_nobody() {
    let cases = [(1, 1, 60), (1, 1, 150), (2, 2, 60)].map(|(workers, chains, activity)| {
        let others = later("plain-1-1", 100, activity * 4, 10);
        let all = [many("plain", 1, 80, chains), others].concat();
        let what = format!("longer chains, {workers} workers, {activity} ms");
        Case::new(what, Size::new(workers, activity, 0, 5), all)
    });
    none_is_worse(cases, is_starved).await;
}

/// A long chain without a limit, and others with this rule, which wait for the only worker.
fn beside_a_chain(shape: &str, rule: Rule) -> Case {
    let all = [many("plain", 1, 80, 1), later(shape, 100, 240, 10)].concat();
    Case::new(shape, Size::new(1, 60, 0, 5), all).under([rule])
}

#[tokio::test(start_paused = true)]
async fn a_chain_starves_no_high_priority() {
    let case = beside_a_chain("high-1-1", rule("tag=high").priority(Priority::High));
    none_is_worse([case], is_starved).await;
}

#[tokio::test(start_paused = true)]
async fn a_chain_takes_no_share_of_another_key() {
    let case = beside_a_chain("ada-1-1", rule("tag=ada").weight(100));
    none_is_worse([case], is_starved).await;
}

/// A process without work and one with a chain share a container: the waiting activities of the busy process
/// are taken by the other.
#[tokio::test(start_paused = true)]
async fn two_processes_share_scarce_workers() {
    let cases = [(3, 0), (20, 10), (60, 0)].map(|(activity, code)| {
        let all = [many("plain", 1, 20, 4), many("plain", 6, 1, 6)].concat();
        let what = format!("two processes, {activity} ms, code {code}");
        Case::new(what, Size::new(1, activity, code, 5), all).on(2)
    });
    none_is_worse(cases, takes_longer).await;
}

#[ignore = "takes a minute"]
#[tokio::test(start_paused = true)]
async fn throughput_of_other_sizes() {
    let sizes = [
        (2, 2, 3, 5, 5),
        (2, 2, 10, 8, 10),
        (16, 6, 2, 5, 5),
        (16, 2, 2, 5, 5),
        (4, 4, 0, 3, 3),
        (4, 4, 0, 1, 3),
        (8, 8, 5, 10, 4),
    ];
    let cases = sizes
        .into_iter()
        .flat_map(|(workers, dispatchers, activity, code, latency)| {
            let mut size = Size::new(workers, activity, code, latency);
            size.dispatchers = dispatchers;
            [(1, 6, 24), (30, 1, 6), (250, 1, 1), (6, 6, 5)].map(|(width, depth, count)| {
                let all = many("plain", width, depth, count);
                Case::new(format!("{count} of {width}-{depth}"), size.clone(), all)
            })
        });
    none_is_worse(cases, takes_longer).await;
}
