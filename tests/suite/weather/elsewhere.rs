//! What a sick partition delays elsewhere, and how its own work goes on.

use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use duroxide::providers::Provider as _;
use tokio::time::sleep;

use super::network::What;
use super::site::Site;
use crate::network::{ANY, Kind, QUERY, READ, WRITE};

const MS: fn(u64) -> Duration = Duration::from_millis;

pub(super) const WRITES: &[OperationKind] = &[
    OperationKind::Create,
    OperationKind::Replace,
    OperationKind::Upsert,
    OperationKind::Patch,
    OperationKind::Delete,
    OperationKind::Batch,
    OperationKind::Bulk,
];
const READS: &[OperationKind] = &[OperationKind::Read];
const QUERIES: &[OperationKind] = &[OperationKind::Query];

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
            let queued = site.client.enqueue_event(&*pair[0], "Orders", "x").await;
            queued.expect("it is queued");
        }
        for (kinds, share, effect) in &self.refused {
            let mut fault = Fault::with_probability(effect.clone(), *share);
            for kind in *kinds {
                fault = fault.on(*kind);
            }
            for range in self.sick {
                fault = fault.on_partition(*range);
            }
            site.emulator().inject(fault);
        }
        for (kind, share, what) in &self.late {
            site.rules.add(self.sick, &site.all, *kind, *share, *what);
        }
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
        let mut broken = Vec::new();
        let silent = self
            .late
            .iter()
            .any(|(_, _, what)| matches!(what, What::Silent));
        let most = if silent { MS(6_000) } else { MS(2_000) };
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
        site.close().await;
        broken
    }
}

async fn run_all(cases: Vec<Case>) {
    let mut broken = Vec::new();
    let only = std::env::var("CASE").unwrap_or_default();
    for case in cases {
        if case.name.contains(&only) {
            broken.extend(case.run().await);
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

const KINDS: [(&str, &[&[OperationKind]]); 7] = [
    ("writes", &[WRITES]),
    ("reads", &[READS]),
    ("queries", &[QUERIES]),
    ("writes+reads", &[WRITES, READS]),
    ("writes+queries", &[WRITES, QUERIES]),
    ("reads+queries", &[READS, QUERIES]),
    ("all", &[WRITES, READS, QUERIES]),
];

fn refusals(
    sick: &'static [&'static str],
    runtimes: usize,
    shares: &[f64],
    effects: &[(&str, Effect)],
) -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, kinds) in KINDS {
        for &share in shares {
            for (effect_name, effect) in effects {
                let title =
                    format!("{runtimes} runtimes, {sick:?}, {share} of {name}, {effect_name}");
                let mut case = Case::new(title);
                case.sick = sick;
                case.runtimes = runtimes;
                case.fault_for = MS(20_000);
                for kinds in kinds {
                    case = case.refuse(kinds, share, effect.clone());
                }
                cases.push(case);
            }
        }
    }
    cases
}

/// The workers of the runtime would run activities of the sick partition one after the other, two seconds
/// each.
#[tokio::test(start_paused = true)]
async fn activities_elsewhere_pass_those_of_a_partition_that_throttles_writes() {
    run_all(vec![
        Case::new("0.95 of writes throttled").refuse(WRITES, 0.95, Effect::throttled(MS(50))),
        Case::new("0.8 of writes throttled").refuse(WRITES, 0.8, Effect::throttled(MS(1_000))),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_answers_writes_by_503_delays_only_its_own_instances() {
    run_all(vec![
        Case::new("0.9 of writes by 503").refuse(WRITES, 0.9, Effect::error(503, 0)),
        Case::new("all writes by 503").refuse(WRITES, 1.0, Effect::error(503, 0)),
    ])
    .await;
}

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
#[ignore = "a search of minutes"]
async fn none() {
    for runtimes in [1, 3] {
        let mut case = Case::new(format!("{runtimes} none"));
        case.runtimes = runtimes;
        run_all(vec![case]).await;
    }
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn throttled() {
    let effects = [
        ("429 50 ms", Effect::throttled(MS(50))),
        ("429 1 s", Effect::throttled(MS(1_000))),
    ];
    run_all(refusals(&["3"], 1, &[0.5, 0.8, 0.95, 1.0], &effects)).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn unavailable() {
    let effects = [
        ("503", Effect::error(503, 0)),
        ("410", Effect::error(410, 1007)),
        ("429 5 s", Effect::throttled(MS(5_000))),
    ];
    run_all(refusals(&["3"], 1, &[0.6, 0.9, 1.0], &effects)).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn two_of_eight() {
    let effects = [
        ("429 200 ms", Effect::throttled(MS(200))),
        ("503", Effect::error(503, 0)),
    ];
    run_all(refusals(&["3", "6"], 1, &[0.5, 0.9, 1.0], &effects)).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn several_runtimes() {
    let effects = [
        ("429 200 ms", Effect::throttled(MS(200))),
        ("503", Effect::error(503, 0)),
    ];
    run_all(refusals(&["3", "6"], 3, &[0.7, 0.95, 1.0], &effects)).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn late() {
    let mut cases = Vec::new();
    for sick in [&["3"][..], &["3", "6"]] {
        for runtimes in [1, 3] {
            for (name, kind) in [
                ("writes", WRITE),
                ("reads", READ),
                ("queries", QUERY),
                ("all", ANY),
            ] {
                for delay in [500, 2_000, 6_000] {
                    for share in [0.5, 1.0] {
                        let title = format!(
                            "{runtimes} runtimes, {sick:?}, {share} of {name} late by {delay}"
                        );
                        let mut case = Case::new(title);
                        case.sick = sick;
                        case.runtimes = runtimes;
                        case.fault_for = MS(20_000);
                        cases.push(case.late(kind, share, What::AnsweredLate(MS(delay))));
                    }
                }
            }
        }
    }
    run_all(cases).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn silent() {
    let mut cases = Vec::new();
    for sick in [&["3"][..], &["3", "6"]] {
        for runtimes in [1, 3] {
            for (name, kind) in [
                ("writes", WRITE),
                ("reads", READ),
                ("queries", QUERY),
                ("all", ANY),
            ] {
                for share in [0.3, 0.7, 1.0] {
                    let title = format!("{runtimes} runtimes, {sick:?}, {share} of {name} silent");
                    let mut case = Case::new(title);
                    case.sick = sick;
                    case.runtimes = runtimes;
                    case.fault_for = MS(20_000);
                    cases.push(case.late(kind, share, What::Silent));
                }
            }
        }
    }
    run_all(cases).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn late_and_refused() {
    let mut cases = Vec::new();
    for (name, kinds) in KINDS {
        for (late, kind) in [
            ("writes", WRITE),
            ("reads", READ),
            ("queries", QUERY),
            ("all", ANY),
        ] {
            for (share, delay) in [(0.5, 1_000), (0.9, 300), (1.0, 1_500)] {
                for sick in [&["3"][..], &["3", "6"]] {
                    let title =
                        format!("{sick:?}, {share} of {name} refused, {late} late by {delay}");
                    let mut case = Case::new(title);
                    case.sick = sick;
                    case.fault_for = MS(20_000);
                    for kinds in kinds {
                        case = case.refuse(kinds, share, Effect::throttled(MS(100)));
                    }
                    cases.push(case.late(kind, 1.0, What::AnsweredLate(MS(delay))));
                }
            }
        }
    }
    run_all(cases).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn one_dispatcher() {
    let mut cases = refusals(
        &["3"],
        1,
        &[0.5, 0.9, 1.0],
        &[("429 100 ms", Effect::throttled(MS(100)))],
    );
    for case in &mut cases {
        case.concurrency = (1, 1);
        case.name.push_str(" one dispatcher");
    }
    for (name, kind) in [
        ("writes", WRITE),
        ("reads", READ),
        ("queries", QUERY),
        ("all", ANY),
    ] {
        for delay in [500, 3_000] {
            let mut case = Case::new(format!("{name} late by {delay}, one dispatcher"));
            case.concurrency = (1, 1);
            case.fault_for = MS(20_000);
            cases.push(case.late(kind, 1.0, What::AnsweredLate(MS(delay))));
        }
        let mut case = Case::new(format!("{name} silent, one dispatcher"));
        case.concurrency = (1, 1);
        case.fault_for = MS(20_000);
        cases.push(case.late(kind, 1.0, What::Silent));
    }
    run_all(cases).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn six_dispatchers() {
    let effects = [
        ("429 100 ms", Effect::throttled(MS(100))),
        ("503", Effect::error(503, 0)),
    ];
    let mut cases = refusals(&["3", "6"], 1, &[0.5, 0.9, 1.0], &effects);
    for case in &mut cases {
        case.concurrency = (6, 6);
        case.sick_count = 40;
        case.name.push_str(" six dispatchers");
    }
    run_all(cases).await;
}

/// Point reads are answered, so that the partition counts as slow, and the locks of first turns hold all
/// dispatchers.
#[tokio::test(start_paused = true)]
#[ignore = "a write without an answer holds its dispatcher for up to 30 s while point reads are answered"]
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
#[ignore = "a request without an answer holds its dispatcher for 10 s while others are answered"]
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
    let effects = [("503", Effect::error(503, 0))];
    let cases = refusals(&["3", "6"], 3, &[0.7], &effects);
    run_all(cases.into_iter().take(1).collect()).await;
}
