//! The clients of a run: they start orchestrations and judge how each of them ends.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use cdb_chaos::{
    Booked, Documents, Ended, Job, KINDS, Kind, LONG_KINDS, Ledger, follow, keep_trying,
};
use cdb_client::{ContainerClient, CosmosClient};
use cdb_model::Query;
use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::Durable;
use cdb_tests::audit_history;
use clap::ValueEnum;
use duroxide::{Client, OrchestrationStatus};
use futures::future::join_all;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::bank::BankClient;
use crate::bounds::LONGEST_ACTIVITY;
use crate::cluster::Cluster;
use crate::conserved::Sent;
use crate::equal::EqualClient;
use crate::limited::Limited;
use crate::orchestrations::TICK;
use crate::pauses::Pauses;
use crate::random::Random;
use crate::streams::StreamClient;

/// The longest time that due work may wait, while a healthy node lives.
pub(crate) const BOUND: Duration = Duration::from_secs(1800);

/// The longest time that an orchestration may take in calm weather, besides its work and the time
/// of faults that can delay all nodes.
const LATEST: Duration = Duration::from_secs(120);

/// The longest pause between two orchestrations that run one by one.
const LONGEST_REST: Duration = Duration::from_secs(600);

/// The pause between two large orchestrations.
const LARGE_PAUSE: Duration = Duration::from_secs(6 * 3600);

/// The number of characters of a large result: more than a document holds.
const LARGE: &str = "3000000";

/// The most documents that a kept execution of an eternal orchestration and its traces take.
const DOCUMENTS_PER_TICK: u64 = 20;

/// The number of eternal orchestrations.
const ETERNAL: usize = 3;

/// A part of the work of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Orchestrations of every kind, in waves.
    Waves,
    /// Activities and sessions that take longer than their locks.
    Long,
    /// Orchestrations that continue as new every hour.
    Eternal,
    /// Timers of hours and days.
    Delays,
    /// Results that no single document can hold.
    Large,
    /// Streams of messages that must be handled in order.
    Streams,
    /// Leases, and transfers by outbox and inbox.
    Bank,
    /// Transactional activities.
    Effects,
    /// Activities around the times of locks and claims.
    Rest,
    /// An instance with many events that a dead provider holds, in front of others.
    Held,
    /// Starts that no node can run, in front of others.
    Unfit,
    /// Streams whose first message no attempt can handle.
    HeldStreams,
    /// Parents of detached children that are deleted as soon as they have ended.
    Detached,
    /// Instances that are started again while operators delete them.
    Restarted,
    /// Activities with limits; alone on up to 50 nodes, far from the service.
    Limited,
    /// Instances that an operator pauses and resumes.
    Paused,
    /// Queued events, each of which is consumed once.
    Conserved,
    /// Equal writes of all nodes at the same time.
    Equal,
}

impl Workload {
    /// Returns whether a seed has this workload. Half of the seeds have each of those that make
    /// runs long.
    fn is_drawn(self, seed: u64) -> bool {
        match self {
            Self::Held
            | Self::Unfit
            | Self::HeldStreams
            | Self::Detached
            | Self::Restarted
            | Self::Limited
            | Self::Paused
            | Self::Rest => Random::new(seed, &format!("{self:?} is drawn")).chance(50),
            _ => true,
        }
    }
}

/// Access to the cluster from outside.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) client: Arc<Client>,
    pub(crate) provider: Arc<CosmosDBProvider>,
    pub(crate) limited: Limited,
    pub(crate) pauses: Pauses,
    pub(crate) ledger: Ledger,
    pub(crate) documents: ContainerClient<Documents>,
    pub(crate) streams: StreamClient,
    pub(crate) bank: BankClient,
    pub(crate) equal: EqualClient,
    pub(crate) sent: Sent,
    pub(crate) cluster: Arc<Cluster>,
}

/// What the clients of a run do.
#[derive(Clone, Debug)]
pub(crate) struct WorkPlan {
    pub(crate) seed: u64,
    /// The only workload; all if `None`.
    pub(crate) only: Option<Workload>,
    pub(crate) until: Instant,
    /// How long the nodes keep replaced executions.
    pub(crate) retention: Duration,
    pub(crate) nodes: usize,
    pub(crate) outside: CosmosClient,
    /// The longest time between two waves.
    pub(crate) wave: Duration,
    /// The times when faults can delay all nodes, since the start of the work. `None` if late
    /// orchestrations are no problem.
    pub(crate) delays: Option<Arc<[Range<Duration>]>>,
}

/// What the clients of a run have seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The orchestrations of the waves.
    pub(crate) ended: Vec<Ended>,
    /// The number of other orchestrations.
    pub(crate) others: usize,
    pub(crate) problems: Vec<String>,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").finish_non_exhaustive()
    }
}

impl Caller {
    /// Runs the workloads until `until`, and waits for the ends of what they started.
    pub(crate) async fn work(&self, plan: &WorkPlan) -> Seen {
        let lateness = Lateness {
            began: Instant::now(),
            delays: plan.delays.clone(),
        };
        let (seed, until) = (plan.seed, plan.until);
        let time = until.saturating_duration_since(Instant::now());
        let selected = |workload: &Workload| match plan.only {
            Some(only) => only == *workload,
            None => workload.is_drawn(seed) && (*workload != Workload::Eternal || time >= TICK),
        };
        let works = Workload::value_variants().iter().copied();
        let works = works.filter(selected);
        let works = works.map(|workload| self.run(workload, plan, &lateness));
        let mut all = Seen::default();
        for seen in join_all(works).await {
            all.ended.extend(seen.ended);
            all.others += seen.others;
            all.problems.extend(seen.problems);
        }
        all
    }

    /// Runs a workload.
    async fn run(&self, workload: Workload, plan: &WorkPlan, lateness: &Lateness) -> Seen {
        let (seed, until) = (plan.seed, plan.until);
        match workload {
            Workload::Waves => Box::pin(self.waves(seed, plan.wave, lateness, until)).await,
            Workload::Long => Box::pin(self.one_by_one(seed, &LONG_KINDS, lateness, until)).await,
            Workload::Effects => {
                Box::pin(self.one_by_one(seed, &[Kind::Effects], lateness, until)).await
            }
            Workload::Eternal => Box::pin(self.eternal(until, plan.retention)).await,
            Workload::Delays => Box::pin(self.delays(seed, until)).await,
            Workload::Large => Box::pin(self.large(until)).await,
            Workload::Streams => Seen::of(Box::pin(self.streams.work(seed, until)).await),
            Workload::Bank => Seen::of(Box::pin(self.bank.work(until)).await),
            Workload::Rest => Box::pin(self.rest(seed, until)).await,
            Workload::Held => Box::pin(self.held(seed, until)).await,
            Workload::Unfit => Box::pin(self.unfit(seed, &plan.outside, until)).await,
            Workload::HeldStreams => Seen::of(Box::pin(self.streams.hold(plan.nodes, until)).await),
            Workload::Detached => Box::pin(self.detached(seed, until)).await,
            Workload::Restarted => Box::pin(self.restarted(seed, until)).await,
            Workload::Limited => {
                let only = plan.only.is_some();
                Box::pin(self.limited(seed, plan.nodes, only, until)).await
            }
            Workload::Paused => Box::pin(self.pauses(plan)).await,
            Workload::Conserved => Box::pin(self.conserved(seed, plan.wave, until)).await,
            Workload::Equal => Seen::of(Box::pin(self.equal.work(until)).await),
        }
    }

    /// Starts waves of orchestrations, one of each kind, and follows each to its end.
    async fn waves(
        &self,
        seed: u64,
        longest: Duration,
        lateness: &Lateness,
        until: Instant,
    ) -> Seen {
        let mut random = Random::new(seed, "waves");
        let (mut result, mut following, mut number) = (Seen::default(), JoinSet::new(), 0);
        while Instant::now() < until {
            for _ in KINDS {
                let (caller, lateness, job) = (self.clone(), lateness.clone(), Job::new(number));
                following.spawn(async move { caller.follow(job, lateness).await });
                number += 1;
            }
            let pause = random.duration(Duration::from_secs(1)..longest);
            sleep_until(until.min(Instant::now() + pause)).await;
            while let Some(one) = following.try_join_next() {
                result.add(one.expect("a client does not panic"));
            }
        }
        while let Some(one) = following.join_next().await {
            result.add(one.expect("a client does not panic"));
        }
        result
    }

    /// Runs one orchestration of these kinds after another. More of those whose activities take
    /// longer than their locks would take all workers.
    async fn one_by_one(
        &self,
        seed: u64,
        kinds: &[Kind],
        lateness: &Lateness,
        until: Instant,
    ) -> Seen {
        let mut random = Random::new(seed, &format!("{kinds:?}"));
        let (mut all, mut number) = (Seen::default(), 0);
        while Instant::now() < until {
            let kind = kinds[number % kinds.len()];
            let job = Job { number, kind };
            all.add(self.clone().follow(job, lateness.clone()).await);
            number += 1;
            let pause = random.duration(Duration::from_secs(1)..LONGEST_REST);
            sleep_until(until.min(Instant::now() + pause)).await;
        }
        all
    }

    /// Follows an orchestration and judges its history at once, before retention deletes it.
    async fn follow(self, job: Job, lateness: Lateness) -> Followed {
        let started = lateness.began.elapsed();
        let ended = follow(&self.client, job, BOUND).await;
        if ended.status.is_none() {
            return Followed {
                ended,
                problems: Vec::new(),
            };
        }
        let (instance, documents) = (job.instance(), self.documents.view());
        let audit = keep_trying(|| audit_history(&documents, &instance)).await;
        let problems = audit.unwrap_or_else(|error| vec![error]).into_iter();
        let named = problems.map(|problem| format!("`{instance}`: {problem}"));
        let late = lateness.judge(started, &ended, &self.cluster.deployments().await);
        Followed {
            ended,
            problems: named.chain(late).collect(),
        }
    }

    /// Runs eternal orchestrations and compares their bookings with the time.
    async fn eternal(&self, until: Instant, retention: Duration) -> Seen {
        let began = Instant::now();
        let mut result = Seen::default();
        let names: Vec<String> = (0..ETERNAL)
            .map(|number| format!("Eternal-{number}"))
            .collect();
        for name in &names {
            result.start(self, name, "Eternal", "1").await;
        }
        sleep_until(until + BOUND).await;
        let ticks = began.elapsed().as_secs() / TICK.as_secs();
        match keep_trying(|| self.ledger.read()).await {
            Err(error) => result
                .problems
                .push(format!("the ledger cannot be read: {error}")),
            Ok(booked) => {
                let judged = names
                    .iter()
                    .filter_map(|name| missing_ticks(name, &booked, ticks));
                result.problems.extend(judged);
            }
        }
        for name in &names {
            let count = keep_trying(|| self.documents_of(name))
                .await
                .unwrap_or(usize::MAX);
            let kept = retention.as_secs().div_ceil(TICK.as_secs()) + 3;
            if count as u64 > DOCUMENTS_PER_TICK * kept {
                let problem = format!("{name}: {count} documents after {ticks} ticks");
                result.problems.push(problem);
            }
            let cancelled = keep_trying(|| self.client.cancel_instance(name, "enough")).await;
            result.problems.extend(cancelled.err());
            if self.end(name, Duration::ZERO).await.is_none() {
                result.problems.push(format!("{name}: it is not cancelled"));
            }
        }
        // The timers of cancelled executions are consumed when they are due.
        sleep(TICK).await;
        result
    }

    /// Returns the number of documents in the partition of an instance.
    async fn documents_of(&self, instance: &str) -> Result<usize, cdb_client::Error> {
        let query = Query::<Durable>::in_partition(instance);
        let documents = self.documents.view::<Durable>();
        Ok(documents.query(query).all().await?.len())
    }

    /// Starts timers of hours and days, which end in time.
    async fn delays(&self, seed: u64, until: Instant) -> Seen {
        let mut random = Random::new(seed, "delays");
        let (mut result, mut waiting, mut number) = (Seen::default(), JoinSet::new(), 0);
        while Instant::now() + TICK < until {
            let longest = (until - Instant::now()).min(TICK * 72);
            let delay = random.duration(TICK / 60..longest);
            let instance = format!("Delay-{number}");
            let seconds = delay.as_secs().to_string();
            result.start(self, &instance, "Delay", &seconds).await;
            let caller = self.clone();
            waiting.spawn(async move {
                let output = caller.end(&instance, delay).await;
                (output.as_deref() != Some("later")).then(|| format!("{instance}: {output:?}"))
            });
            number += 1;
            let pause = random.duration(TICK..TICK * 8);
            sleep_until(until.min(Instant::now() + pause)).await;
        }
        while let Some(one) = waiting.join_next().await {
            result
                .problems
                .extend(one.expect("a client does not panic"));
        }
        result
    }

    /// Runs orchestrations one after another whose activity takes about as long as a lock or a
    /// claim, or longer.
    async fn rest(&self, seed: u64, until: Instant) -> Seen {
        let mut random = Random::new(seed, "rest");
        let (mut work, mut number) = (Seen::default(), 0);
        while Instant::now() < until {
            let instance = format!("Rest-{number}");
            let seconds = [3, 6, 20, 31, 45, LONGEST_ACTIVITY][random.below(6)];
            let millis = (seconds * 1000).to_string();
            work.start(self, &instance, "Rest", &millis).await;
            let output = self.end(&instance, Duration::ZERO).await;
            if output.as_deref() != Some("rested") {
                work.problems.push(format!("{instance}: {output:?}"));
            }
            number += 1;
        }
        work
    }

    /// Runs orchestrations with results that are stored in chunks.
    async fn large(&self, until: Instant) -> Seen {
        let (mut seen, mut number) = (Seen::default(), 0);
        let time = until.saturating_duration_since(Instant::now());
        let pause = (time / 20).min(LARGE_PAUSE);
        while Instant::now() < until {
            let instance = format!("Large-{number}");
            seen.start(self, &instance, "Large", LARGE).await;
            let output = self.end(&instance, Duration::ZERO).await;
            if output.as_deref() != Some(LARGE) {
                seen.problems.push(format!("{instance}: {output:?}"));
            }
            number += 1;
            sleep_until(until.min(Instant::now() + pause)).await;
        }
        seen
    }

    /// Waits until an instance is due and returns its output, or the message of its failure. `None`
    /// if it does not end in time.
    pub(crate) async fn end(&self, instance: &str, due: Duration) -> Option<String> {
        sleep(due).await;
        let deadline = Instant::now() + BOUND;
        while Instant::now() < deadline {
            let status = keep_trying(|| self.client.get_orchestration_status(instance)).await;
            match status {
                Ok(OrchestrationStatus::Completed { output, .. }) => return Some(output),
                Ok(OrchestrationStatus::Failed { details, .. }) => {
                    return Some(details.display_message());
                }
                _ => sleep(Duration::from_secs(5)).await,
            }
        }
        None
    }
}

/// An orchestration that was followed to its end, with the problems that it has shown.
struct Followed {
    ended: Ended,
    problems: Vec<String>,
}

/// Judges how long orchestrations take.
#[derive(Clone, Debug)]
struct Lateness {
    /// When the work began.
    began: Instant,
    delays: Option<Arc<[Range<Duration>]>>,
}

impl Lateness {
    /// Returns the problem of an orchestration that ended more than two minutes late. The time of
    /// faults that can delay all nodes does not count.
    fn judge(
        &self,
        started: Duration,
        ended: &Ended,
        deployments: &[Range<Duration>],
    ) -> Option<String> {
        let end = started + ended.after;
        let overlap = |delay: &Range<Duration>| {
            let from = delay.start.max(started);
            delay.end.min(end).saturating_sub(from)
        };
        let delays = self.delays.as_ref()?.iter().chain(deployments);
        let excused: Duration = delays.map(overlap).sum();
        let late = ended.after.saturating_sub(ended.job.work() + excused);
        (late > LATEST).then(|| {
            let instance = ended.job.instance();
            format!("{instance} ended {} s late", late.as_secs())
        })
    }
}

/// Compares the bookings of an eternal orchestration with its age.
fn missing_ticks(name: &str, booked: &Booked, ticks: u64) -> Option<String> {
    let steps = booked.get(name);
    let count = steps.map_or(0, |steps| steps.len() as u64);
    let last = format!("tick-{count}");
    let is_complete = steps.is_some_and(|steps| steps.contains_key(&last));
    // Each tick is a little late, and faults delay some by minutes.
    let fewest = ticks - ticks / 10 - 1;
    (count < fewest || !is_complete).then(|| format!("{name}: {count} of {ticks} ticks: {steps:?}"))
}

impl Seen {
    pub(crate) fn of(problems: Vec<String>) -> Self {
        Self {
            problems,
            ..Self::default()
        }
    }

    fn add(&mut self, followed: Followed) {
        self.ended.push(followed.ended);
        self.problems.extend(followed.problems);
    }

    pub(crate) async fn start(&mut self, caller: &Caller, instance: &str, name: &str, input: &str) {
        let start = || caller.client.start_orchestration(instance, name, input);
        self.others += 1;
        if let Err(error) = keep_trying(start).await {
            self.problems
                .push(format!("{instance}: it cannot start: {error}"));
        }
    }
}
