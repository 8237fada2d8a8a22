//! What a sick partition delays elsewhere, and how its own work goes on.

use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use duroxide::providers::Provider as _;
use tokio::time::sleep;

use super::network::What;
use super::site::Site;
use crate::network::{ANY, Kind, WRITE, WRITES};

const MS: fn(u64) -> Duration = Duration::from_millis;

#[derive(Clone)]
struct Case {
    name: String,
    sick: &'static [&'static str],
    runtimes: usize,
    concurrency: (usize, usize),
    refused: Vec<(&'static [OperationKind], f64, Effect)>,
    late: Vec<(Kind, f64, What)>,
    seed: u64,
    sick_count: usize,
    busy: usize,
    fault_for: Duration,
}

impl Case {
    fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            sick: &["3"],
            runtimes: 1,
            concurrency: (2, 2),
            refused: vec![],
            late: vec![],
            seed: 1,
            sick_count: 12,
            busy: 8,
            fault_for: MS(0),
        }
    }

    fn refuse(mut self, kinds: &'static [OperationKind], share: f64, effect: Effect) -> Self {
        self.refused.push((kinds, share, effect));
        self
    }

    fn late(mut self, kind: Kind, share: f64, what: What) -> Self {
        self.late.push((kind, share, what));
        self
    }

    fn fall_ill(&self, site: &Site) {
        for (kinds, share, effect) in &self.refused {
            let fault = Fault::with_probability(effect.clone(), *share);
            let fault = kinds.iter().fold(fault, |fault, kind| fault.on(*kind));
            let sick = self.sick.iter();
            site.emulator()
                .inject(sick.fold(fault, |fault, range| fault.on_partition(*range)));
        }
        for (kind, share, what) in &self.late {
            site.rules.add(self.sick, &site.all, *kind, *share, *what);
        }
    }

    /// Returns the violations.
    async fn run(&self) -> Vec<String> {
        let Some(site) = Site::open(self.runtimes, self.concurrency, self.seed).await else {
            return vec![];
        };
        sleep(MS(1_500)).await;
        let sick = site.within(self.sick);
        let (busy, rest) = sick.split_at(self.busy);
        let steps: Vec<_> = rest.chunks(2).take(self.sick_count).collect();
        for instance in busy {
            site.start(instance, "Busy", "10").await;
        }
        sleep(MS(500)).await;
        for pair in &steps {
            site.start(&pair[0], "Steps", &pair[1]).await;
            ok!(site.client.enqueue_event(&*pair[0], "Orders", "x"));
        }
        self.fall_ill(&site);
        let longest = site.probe(&site.outside(self.sick), 10).await;
        sleep(self.fault_for).await;
        let mut own: Vec<String> = busy.to_vec();
        own.extend(steps.iter().map(|pair| pair[0].clone()));
        let total = own.len();
        // Read from beside the faults.
        site.rules.clear();
        site.emulator().clear_faults();
        let before = site.completed(&own).await;
        let mut events = 0;
        for instance in &own {
            events += site
                .provider
                .read(instance)
                .await
                .map_or(0, |events| events.len());
        }
        let recovery = site.until_completed(&own, Duration::from_secs(300)).await;
        println!(
            "{}: {longest:?}; own {before}/{total} and {events} events before recovery, all {recovery:?} after",
            self.name
        );
        site.close().await;
        self.broken(longest, before, recovery)
    }

    fn broken(
        &self,
        longest: impl IntoIterator<Item = (&'static str, Duration)>,
        before: usize,
        recovery: Option<Duration>,
    ) -> Vec<String> {
        let mut broken = Vec::new();
        let silent = self
            .late
            .iter()
            .any(|(_, _, what)| matches!(what, What::Silent));
        let slow = self.late.iter().map(|(_, _, what)| match what {
            What::AnsweredLate(delay) => *delay,
            _ => MS(0),
        });
        let slow = slow.max().unwrap_or_default();
        let most = if silent {
            MS(6_000)
        } else {
            MS(2_000) + 2 * slow
        };
        for (step, took) in longest {
            if took > most + MS(50) {
                broken.push(format!("{}: {step} took {took:?}", self.name));
            }
        }
        if recovery.is_none_or(|took| took > MS(60_000)) {
            broken.push(format!("{}: recovery {recovery:?}", self.name));
        }
        let share = self.refused.iter().map(|(_, share, _)| *share);
        let share = share.fold(0.0, f64::max);
        if share <= 0.9 && !silent && before == 0 && !self.fault_for.is_zero() {
            broken.push(format!("{}: its own work starves", self.name));
        }
        broken
    }
}

async fn run_all(cases: Vec<Case>) {
    let mut broken = Vec::new();
    for case in cases {
        broken.extend(case.run().await);
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// The workers of the runtime would run activities of the sick partition one after the other, two seconds
/// each.
#[tokio::test(start_paused = true)]
async fn activities_elsewhere_pass_those_of_a_partition_that_throttles_writes() {
    let case = Case::new("0.95 of writes throttled");
    run_all(vec![case.refuse(WRITES, 0.95, Effect::throttled(MS(50)))]).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "in one of four runs, an activity waits for 3 to 7 s; the cause is not known"]
async fn activities_elsewhere_pass_those_of_a_partition_that_asks_for_long_pauses() {
    let case = Case::new("0.8 of writes throttled");
    run_all(vec![case.refuse(WRITES, 0.8, Effect::throttled(MS(1_000)))]).await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_answers_writes_by_503_delays_only_its_own_instances() {
    run_all(vec![
        Case::new("0.9 of writes by 503").refuse(WRITES, 0.9, Effect::error(503, 0)),
        Case::new("all writes by 503").refuse(WRITES, 1.0, Effect::error(503, 0)),
    ])
    .await;
}

/// Until the first slow answer, all dispatchers may have begun a turn of the partition: a lock and a commit.
#[tokio::test(start_paused = true)]
async fn a_partition_with_slow_writes_delays_only_its_own_instances() {
    let mut cases = Vec::new();
    for delay in [500, 1_000] {
        let case = Case::new(format!("writes late by {delay}"));
        cases.push(case.late(WRITE, 1.0, What::AnsweredLate(MS(delay))));
    }
    run_all(cases).await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_answers_no_writes_delays_only_its_own_instances() {
    run_all(vec![Case::new("all writes silent").late(
        WRITE,
        1.0,
        What::Silent,
    )])
    .await;
}

/// A lost request now and then does not make the partition silent.
#[tokio::test(start_paused = true)]
#[ignore = "a read without an answer holds its dispatcher for 10 s while others are answered: it may be a long load"]
async fn a_partition_that_loses_a_third_of_requests_delays_only_its_own_instances() {
    run_all(vec![Case::new("0.3 of all silent").late(
        ANY,
        0.3,
        What::Silent,
    )])
    .await;
}

/// The starts of children wait for the end of a round of deliveries, which takes up to 5 s.
#[tokio::test(start_paused = true)]
#[ignore = "a round of deliveries waits up to 5 s for a partition that answers by 503"]
async fn a_partition_that_answers_some_writes_by_503_delays_no_children_elsewhere() {
    let mut case = Case::new("0.7 of writes of two partitions by 503");
    (case.sick, case.runtimes, case.fault_for) = (&["3", "6"], 3, MS(20_000));
    run_all(vec![case.refuse(WRITES, 0.7, Effect::error(503, 0))]).await;
}
