//! Limits that many runtimes share: never more than permitted, and all of it, soon. Time is simulated; requests take
//! their time on the network.

use std::sync::Mutex;
use std::time::Duration;

use cdb_provider::documents::{Priority, Rule};
use cdb_provider::{CosmosDBProvider, InstanceLabel};
use cdb_tests::Backend;
use duroxide::Event;
use duroxide::providers::{Provider as _, TagFilter, WorkItem};
use futures::future::join_all;
use tokio::time::Instant;
use uuid::Uuid;

use crate::fair_work::{POLL, Seen, lock_time, rule, set, work_off_within};
use crate::harness::next_turn;
use crate::network::{ANY, Network};
use crate::several::{ack, enqueue, event, start};
use crate::work_items::{activity_of, metadata_of, started};

const KNOWN_WITHIN: Duration = Duration::from_secs(12);

/// The most activities that a turn schedules.
const PER_TURN: usize = 50;

/// Opens runtimes whose requests take this time, in a container with these rules, which all of them know.
async fn runtimes(
    backend: &Backend,
    count: usize,
    takes: Duration,
    rules: Vec<Rule>,
) -> Option<Vec<CosmosDBProvider>> {
    let network = Network::default();
    let mut runtimes = Vec::new();
    let first = network.provider(backend).await?;
    for rule in rules {
        set(&first, rule).await;
    }
    runtimes.push(first);
    while runtimes.len() < count {
        runtimes.push(network.provider(backend).await?);
    }
    network.slow_down(ANY, takes);
    tokio::time::sleep(KNOWN_WITHIN).await;
    Some(runtimes)
}

/// Schedules activities with these tags, each by a turn of the next runtime.
async fn schedule(runtimes: &[CosmosDBProvider], tags: &[&str]) {
    let each = runtimes.iter().enumerate().map(async |(at, runtime)| {
        let own: Vec<_> = tags.iter().skip(at).step_by(runtimes.len()).collect();
        for some in own.chunks(PER_TURN) {
            by_turn(runtime, some).await;
        }
    });
    join_all(each).await;
}

async fn by_turn(runtime: &CosmosDBProvider, tags: &[&&str]) {
    enqueue(runtime, start(&Uuid::new_v4().to_string())).await;
    let (item, token, _) = next_turn(runtime, Duration::from_secs(30)).await;
    let activities = (2..).zip(tags).map(|(id, tag)| {
        let mut activity = activity_of(&item.instance, id, None);
        if let WorkItem::ActivityExecute { tag: own, .. } = &mut activity {
            *own = Some((**tag).to_owned());
        }
        activity
    });
    let begun = Event::with_event_id(1, item.instance.clone(), 1, None, started("Wait", ""));
    let metadata = metadata_of("Wait");
    let acked = runtime.ack_orchestration_item(
        &token,
        1,
        vec![begun],
        activities.collect(),
        vec![],
        metadata,
        vec![],
    );
    acked.await.expect("the turn is committed");
}

async fn run(
    runtimes: &[CosmosDBProvider],
    workers: usize,
    time: Duration,
    count: usize,
    within: Duration,
) -> Seen {
    let all: Vec<_> = runtimes.iter().collect();
    work_off_within(&all, workers, time, count, within).await
}

/// Returns the most that ran at a time, and how many ended within the time in which a perfect limit ends all.
async fn used(count: usize, cap: u32, each: Duration, takes: Duration) -> Option<(u32, f64)> {
    let backend = Backend::start_simulated().await;
    let rules = vec![rule("tag=bank").running(cap)];
    let runtimes = runtimes(&backend, count, takes, rules).await?;
    let items = cap * 6;
    schedule(&runtimes, &vec!["bank"; items as usize]).await;
    let within = each * 6;
    let seen = run(&runtimes, 4, each, items as usize, within).await;
    let most = seen.most["bank"];
    let ended = u32::try_from(seen.of("bank")).expect("few");
    backend.stop().await;
    Some((most, f64::from(ended) / f64::from(cap * 5)))
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_kept_and_used_whatever_the_time_of_a_request() {
    for takes in [20, 400] {
        let takes = Duration::from_millis(takes);
        let (most, share) = or_skip!(used(8, 8, Duration::from_secs(10), takes).await);
        println!("{takes:?}: {most} of 8 at most, share {share:.2} of what five rounds could end");
        assert!(most <= 8, "{most} run at a time; requests take {takes:?}");
        assert!(share >= 0.85, "{share}; requests take {takes:?}");
    }
}

#[tokio::test(start_paused = true)]
#[ignore = "takes minutes"]
async fn fifty_runtimes_keep_to_a_limit_and_use_it() {
    for takes in [20, 150, 400] {
        let takes = Duration::from_millis(takes);
        let (most, share) = or_skip!(used(50, 50, Duration::from_secs(20), takes).await);
        println!("{takes:?}: {most} of 50 at most, share {share:.2} of what five rounds could end");
        assert!(most <= 50, "{most} run at a time; requests take {takes:?}");
        assert!(share >= 0.85, "{share}; requests take {takes:?}");
    }
}

/// Returns the times of the starts of these many activities at a rate, since they were scheduled.
async fn starts(count: usize, items: usize, rate: f64, within: Duration) -> Option<Vec<Duration>> {
    let backend = Backend::start_simulated().await;
    let rules = vec![rule("tag=bank").starts_per_second(rate)];
    let takes = Duration::from_millis(50);
    let runtimes = runtimes(&backend, count, takes, rules).await?;
    schedule(&runtimes, &vec!["bank"; items]).await;
    let begun = Instant::now();
    let seen = run(&runtimes, 4, Duration::from_millis(100), items, within).await;
    backend.stop().await;
    let mut starts: Vec<_> = seen.started.iter().map(|(_, at)| *at - begun).collect();
    starts.sort_unstable();
    Some(starts)
}

/// Asserts that no window has more starts than a rate permits.
fn assert_rate(starts: &[Duration], rate: f64) {
    for (at, first) in starts.iter().enumerate() {
        for (count, last) in (1..).zip(&starts[at..]) {
            let permitted = last.saturating_sub(*first).as_secs_f64() * rate + rate.max(1.0) + 1.0;
            assert!(
                f64::from(count) <= permitted,
                "{count} in {first:?} to {last:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_rate_is_kept_and_used_by_any_number_of_runtimes() {
    for (count, most) in [(2, 33), (8, 35)] {
        let within = Duration::from_secs(120);
        let starts = or_skip!(starts(count, 240, 8.0, within).await);
        let last = *starts.last().expect("some started");
        println!("{count} runtimes: 240 starts in {last:?}");
        assert_eq!(starts.len(), 240);
        assert_rate(&starts, 8.0);
        assert!(last <= Duration::from_secs(most), "{count}: {last:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_low_rate_starts_at_once_and_without_bursts() {
    let within = Duration::from_secs(100);
    let starts = or_skip!(starts(8, 30, 0.1, within).await);
    println!("first {:?}, {} in 100 s", starts[0], starts.len());
    assert!(starts[0] <= Duration::from_secs(1), "{:?}", starts[0]);
    assert!((10..=12).contains(&starts.len()), "{starts:?}");
    assert_rate(&starts, 0.1);
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_at_a_free_limit_waits_for_two_round_trips() {
    for takes in [20, 150, 400] {
        let takes = Duration::from_millis(takes);
        let backend = Backend::start_simulated().await;
        let rules = vec![rule("tag=bank").running(100)];
        let runtimes = or_skip!(runtimes(&backend, 2, takes, rules).await);
        let (first, second) = runtimes.split_at(1);
        schedule(first, &["bank"; 8]).await;
        run(first, 8, Duration::from_secs(1), 8, Duration::from_secs(60)).await;
        schedule(second, &["bank"]).await;
        let begun = Instant::now();
        let seen = run(second, 8, Duration::ZERO, 1, Duration::from_secs(60)).await;
        let waited = seen.started[0].1 - begun;
        println!("{takes:?}: it starts after {waited:?}");
        // One more round trip locks it.
        assert!(
            waited <= takes * 3 + Duration::from_millis(50),
            "{takes:?}: {waited:?}"
        );
        backend.stop().await;
    }
}

/// Returns the time of 500 activities in four runtimes, and their request units each.
async fn backlog(rules: Vec<Rule>) -> Option<(Duration, f64)> {
    let backend = Backend::start_simulated().await;
    let Some(emulator) = backend.emulator() else {
        println!("skipped: needs the emulator");
        return None;
    };
    let runtimes = runtimes(&backend, 4, Duration::from_millis(20), rules).await?;
    schedule(&runtimes, &["bank"; 500]).await;
    emulator.reset_requests();
    let begun = Instant::now();
    let time = Duration::from_millis(200);
    let seen = run(&runtimes, 10, time, 500, Duration::from_secs(600)).await;
    assert_eq!(seen.of("bank"), 500);
    let charge = emulator.requests().charge / 500.0;
    let took = begun.elapsed();
    backend.stop().await;
    Some((took, charge))
}

#[tokio::test(start_paused = true)]
async fn a_limit_far_from_used_up_costs_little() {
    let (free, free_charge) = or_skip!(backlog(Vec::new()).await);
    let limit = vec![rule("tag=bank").running(1_000)];
    let (limited, charge) = backlog(limit).await.expect("not on an account");
    println!(
        "{free:?} and {free_charge:.1} RU without a limit, {limited:?} and {charge:.1} RU with one"
    );
    assert!(limited <= free * 115 / 100, "{limited:?} of {free:?}");
    assert!(charge <= 40.0, "{charge}");
}

#[tokio::test(start_paused = true)]
async fn activities_with_two_used_up_limits_start_in_a_flood() {
    let backend = Backend::start_simulated().await;
    let rules = vec![rule("tag=bank").running(2), rule("*").running(3)];
    let takes = Duration::from_millis(20);
    let runtimes = or_skip!(runtimes(&backend, 4, takes, rules).await);
    let gap = Duration::from_secs(3);
    let arrive = async {
        schedule(&runtimes, &["flood"; 60]).await;
        tokio::time::sleep(gap).await;
        schedule(&runtimes, &["bank"; 4]).await;
        let scheduled = Instant::now();
        tokio::time::sleep(gap).await;
        schedule(&runtimes, &["flood"; 240]).await;
        scheduled
    };
    let time = Duration::from_millis(500);
    let work = run(&runtimes, 4, time, 304, Duration::from_secs(40));
    let (seen, scheduled) = tokio::join!(work, arrive);
    let calls = seen.started.iter().filter(|(tag, _)| tag == "bank");
    let calls: Vec<_> = calls.map(|(_, at)| *at - scheduled).collect();
    println!("{calls:?}");
    // What is before them takes 7 s.
    let is_soon = calls.len() == 4 && calls[3] <= Duration::from_secs(15);
    assert!(is_soon, "{calls:?}");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_activity_of_high_priority_gets_the_next_permit() {
    let backend = Backend::start_simulated().await;
    let rules = vec![
        rule("*").running(2),
        rule("tag=high").priority(Priority::High),
    ];
    let takes = Duration::from_millis(20);
    let runtimes = or_skip!(runtimes(&backend, 1, takes, rules).await);
    let mut tags = vec!["flood"; 100];
    tags.push("high");
    schedule(&runtimes, &tags).await;
    let seen = run(
        &runtimes,
        4,
        Duration::from_secs(1),
        101,
        Duration::from_secs(60),
    )
    .await;
    let place = seen.started.iter().position(|(tag, _)| tag == "high");
    println!("it is start {place:?}");
    assert!(place <= Some(3), "{place:?}");
    backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn equal_weights_get_equal_shares_of_a_limit() {
    let backend = Backend::start_simulated().await;
    let rules = vec![rule("*").running(3), rule("tag=*").weight(1)];
    let takes = Duration::from_millis(20);
    let runtimes = or_skip!(runtimes(&backend, 2, takes, rules).await);
    let mut tags = vec!["ada"; 200];
    tags.extend(vec!["bob"; 60]);
    schedule(&runtimes, &tags).await;
    let seen = run(
        &runtimes,
        4,
        Duration::from_millis(500),
        260,
        Duration::from_secs(12),
    )
    .await;
    let first = seen.started.iter().take(60);
    let bobs = first.filter(|(tag, _)| tag == "bob").count();
    println!("{bobs} of 60 are of bob");
    assert!((27..=33).contains(&bobs), "{bobs}");
    backend.stop().await;
}

fn tenant() -> InstanceLabel {
    InstanceLabel::new("tenant", |id| Some(id.split_once(':')?.0.to_owned()))
}

/// Returns the instance of the next turn, which is committed; `None` if there is none for a while.
async fn turn(runtime: &CosmosDBProvider) -> Option<String> {
    let turn = next_turn(runtime, Duration::from_secs(30));
    let turn = tokio::time::timeout(Duration::from_secs(20), turn).await;
    let (item, token, _) = turn.ok()?;
    ack(runtime, &item, &token).await;
    Some(item.instance)
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_of_a_label_keeps_new_instances_from_beginning() {
    let backend = Backend::start_simulated_with(|config| config.labels = vec![tenant()]).await;
    let runtime = backend.provider().await;
    enqueue(&runtime, start("acme:old")).await;
    assert_eq!(turn(&runtime).await.as_deref(), Some("acme:old"));
    let rule = rule("tenant=acme").running(0);
    let select = rule.select.clone();
    set(&runtime, rule).await;
    enqueue(&runtime, start("acme:new")).await;
    enqueue(&runtime, start("bob:new")).await;
    enqueue(&runtime, event("acme:old")).await;
    let mut turns = [turn(&runtime).await, turn(&runtime).await];
    turns.sort();
    assert_eq!(
        turns.iter().flatten().collect::<Vec<_>>(),
        ["acme:old", "bob:new"]
    );
    assert_eq!(turn(&runtime).await, None);
    // Another process has read the limit when it opened the container, and finds the instance by its polls.
    let other = backend.provider().await;
    assert_eq!(turn(&other).await, None);
    let removed = runtime.remove_limit(&select, "ada").await;
    removed.expect("it exists");
    assert_eq!(turn(&runtime).await.as_deref(), Some("acme:new"));
    backend.stop().await;
}

/// Fetches and ends activities with this tag, and notes when each begins.
async fn only(runtime: &CosmosDBProvider, tag: &str, time: Duration, begun: &Mutex<Vec<Instant>>) {
    let tags = TagFilter::tags([tag]);
    loop {
        let fetched = runtime.fetch_work_item(lock_time(), POLL, None, &tags);
        let Ok(Some((_, token, _))) = fetched.await else {
            continue;
        };
        let at = Instant::now();
        begun.lock().expect("no test has panicked").push(at);
        tokio::time::sleep(time).await;
        let acked = runtime.ack_work_item(&token, None).await;
        acked.expect("its lock is held");
    }
}

/// The runtimes with the permits cannot run it, so no poll brings it to a permit.
#[tokio::test(start_paused = true)]
async fn an_activity_that_only_another_runtime_can_run_does_not_starve_in_a_flood() {
    let backend = Backend::start_simulated().await;
    let takes = Duration::from_millis(20);
    let rules = vec![rule("*").running(2)];
    let runtimes = or_skip!(runtimes(&backend, 2, takes, rules).await);
    let [general, special] = &runtimes[..] else {
        unreachable!("two were opened");
    };
    let (flood, gpu) = (Mutex::default(), Mutex::default());
    let time = Duration::from_millis(500);
    let arrive = async {
        by_turn(general, &[&"flood"; 50]).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        by_turn(general, &[&"gpu"; 2]).await;
        let scheduled = Instant::now();
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_secs(10)).await;
            by_turn(general, &[&"flood"; 50]).await;
        }
        scheduled
    };
    let general = join_all((0..4).map(|_| only(general, "flood", time, &flood)));
    let scheduled = tokio::select! {
        scheduled = arrive => scheduled,
        _ = general => unreachable!("it has no end"),
        () = only(special, "gpu", time, &gpu) => unreachable!("it has no end"),
    };
    let gpu = gpu.into_inner().expect("no test has panicked");
    let waits: Vec<_> = gpu.iter().map(|at| *at - scheduled).collect();
    let flood = flood.into_inner().expect("no test has panicked");
    println!("{waits:?}, beside {}", flood.len());
    // What is before them takes 10 s.
    let is_soon = waits.len() == 2 && waits[1] <= Duration::from_secs(20);
    assert!(is_soon, "{waits:?}");
    // In 43 s, 172 can run.
    assert!(flood.len() >= 150, "the limit is used: {}", flood.len());
    backend.stop().await;
}
