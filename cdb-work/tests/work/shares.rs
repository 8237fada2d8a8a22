//! Partitions are divided evenly, and a partition that stays free is adopted.

use cdb_model::Document as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cdb_coordination::Membership;
use cdb_coordination::membership::{
    InMemoryLeaseProvider, LeaseProvider, MembershipConfig, SlotSet,
};
use cdb_work::{Partitions, Work, WorkConfig, WorkCoordinator, WorkMember};

use crate::test_env::{Tally, TestEnv, applied_in_order, config, message};

fn partitions(count: u16) -> WorkConfig {
    let mut settings = config();
    settings.partitions = Partitions::new(count).unwrap();
    settings
}

/// Waits until the coordinators hold numbers of partitions that meet a condition.
async fn until(works: &[&WorkCoordinator], is_met: impl Fn(&[usize]) -> bool) -> Vec<usize> {
    for _ in 0..600 {
        let sizes: Vec<usize> = works.iter().map(|work| work.partitions().len()).collect();
        if is_met(&sizes) {
            return sizes;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let all: Vec<_> = works.iter().map(|work| work.partitions()).collect();
    panic!("{all:?}");
}

#[tokio::test(start_paused = true)]
async fn sixteen_members_hold_two_of_32_partitions_each() {
    let env = TestEnv::start().await;
    let mut members = Vec::new();
    for name in 0..16 {
        let config = MembershipConfig::named(format!("member-{name}"));
        let member = Membership::start::<WorkMember, _>(env.container::<Work>(), config);
        members.push(Arc::new(member));
    }
    let mut works = Vec::new();
    for member in &members {
        works.push(env.open_with(partitions(32), member.clone()).await);
    }
    let works: Vec<&WorkCoordinator> = works.iter().collect();
    until(&works, |sizes| sizes.iter().all(|size| *size == 2)).await;
    let mut held: Vec<u16> = works.iter().flat_map(|work| work.partitions()).collect();
    held.sort_unstable();
    assert_eq!(held, (0..32).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_member_at_its_limit_leaves_partitions_to_the_others() {
    let env = TestEnv::start().await;
    let mut limited = partitions(32);
    limited.max_partitions = 4;
    let small = env.open_share(limited, 0, 2).await;
    let large = env.open_share(partitions(32), 1, 2).await;
    until(&[&small, &large], |sizes| sizes == [4, 28]).await;
}

#[tokio::test(start_paused = true)]
async fn a_late_coordinator_gets_its_share_back_from_those_that_adopted_it() {
    let env = TestEnv::start().await;
    let first = env.open_share(partitions(8), 0, 2).await;
    until(&[&first], |sizes| sizes == [8]).await;
    let late = env.open_share(partitions(8), 1, 2).await;
    assert!(late.partitions().is_empty());
    until(&[&first, &late], |sizes| sizes == [4, 4]).await;
    assert_eq!(late.partitions(), [1, 3, 5, 7]);
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_without_a_share_adopts_nothing() {
    let env = TestEnv::start().await;
    let none = Arc::new(InMemoryLeaseProvider::share(9, 10));
    let idle = env.open_with(config(), none).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(idle.partitions().is_empty());
}

/// The share of a version in which partition `n` belongs to slot `n`.
struct BySlot(Arc<Membership>);

#[async_trait]
impl LeaseProvider for BySlot {
    async fn slots(&self) -> SlotSet {
        self.0.slots().await
    }
}

#[tokio::test(start_paused = true)]
async fn members_that_divide_differently_serve_every_partition_and_keep_the_order() {
    // By slots `new` has 14 partitions and `old` 18: some are wanted by two members, or by none.
    let (unclaimed, doubled) = divide_differently("old", "new").await;
    assert!(unclaimed == 0 && doubled > 0, "{unclaimed}, {doubled}");
    let (unclaimed, doubled) = divide_differently("new", "old").await;
    assert!(unclaimed > 0 && doubled == 0, "{unclaimed}, {doubled}");
}

/// Runs a member that divides by slots beside one that divides evenly. Returns how many partitions
/// no member wants, and how many both want.
async fn divide_differently(by_slot: &str, evenly: &str) -> (usize, usize) {
    let env = TestEnv::start().await;
    let start = |name: &str| {
        let config = MembershipConfig::named(name);
        Arc::new(Membership::start::<WorkMember, _>(
            env.container::<Work>(),
            config,
        ))
    };
    let members = [start(by_slot), start(evenly)];
    for member in &members {
        let mut views = member.watch();
        let both = views.wait_for(|view| view.members().len() == 2).await;
        drop(both.unwrap());
    }
    let by_slot = Arc::new(BySlot(members[0].clone()));
    let old = env.open_with(partitions(32), by_slot.clone()).await;
    let new = env.open_with(partitions(32), members[1].clone()).await;
    let wanted = [by_slot.parts(32).await, members[1].parts(32).await].concat();
    let wanted_by = |count: usize| {
        let wants = |part: u32| wanted.iter().filter(|other| **other == part).count();
        (0..32).filter(|part| wants(*part) == count).count()
    };
    let all = |sizes: &[usize]| sizes[0] < 32 && sizes[1] < 32 && sizes[0] + sizes[1] == 32;
    until(&[&old, &new], all).await;
    for stream in 0..50 {
        let settings = Partitions::new(32).unwrap();
        let tally = Tally {
            partition: settings.name(settings.of_stream(&stream.to_string())),
            stream: stream.to_string(),
            last: 0,
            count: 0,
        };
        env.shop.run(tally.create()).await.unwrap();
        for n in 1..=3 {
            let stored = old.immediate().store(message(&stream.to_string(), n)).await;
            stored.unwrap();
        }
    }
    let mut completed = 0;
    for round in 0..2000 {
        let work = [&old, &new][round % 2];
        for claimed in work.claim(20, Duration::from_millis(100)).await {
            // The store refuses an effect out of order or twice.
            let report = work.immediate().report(applied_in_order(claimed)).await;
            report.unwrap();
            completed += 1;
        }
        if completed == 150 {
            break;
        }
    }
    assert_eq!((completed, env.applied().await.len()), (150, 150));
    (wanted_by(0), wanted_by(2))
}
