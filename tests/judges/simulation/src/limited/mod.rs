//! Activities with limits. Judged on both sides: never more than the limits permit, and their use while anything
//! waits; and each activity ends.

mod judge;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cdb_chaos::keep_trying;
use cdb_provider::documents::Rule;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use futures::future::join_all;
use tokio::time::{Instant, sleep, sleep_until};

use crate::excuses::Excuses;
use crate::node::WORKERS;
use crate::random::Random;
use crate::virtual_time::elapsed;
use crate::workload::{Caller, Seen};

use judge::{Judge, Limit};

/// The activity with a limit of what runs at a time.
pub(crate) const CAPPED: &str = "Capped";

/// The activity with a limit of starts per second.
pub(crate) const RATED: &str = "Rated";

/// Of [`CAPPED`] in runs with other workloads.
const FEW: u32 = 2;

/// The time after which every node knows the limits.
const KNOWN: Duration = Duration::from_secs(60);

/// The longest pause between two groups.
const PAUSE: Duration = Duration::from_secs(300);

/// The activities of a group for each that may run at a time.
const GROUP: u32 = 6;

/// The share of a limit that is used while anything waits, at least; with fewer permits than nodes, each moves from
/// node to node.
const LEAST: f64 = 0.85;
const LEAST_OF_FEW: f64 = 0.5;

/// What runs and waits of the limited activities, on all nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limited(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    capped: Judge,
    rated: Judge,
}

impl State {
    fn of(&mut self, activity: &str) -> &mut Judge {
        if activity == CAPPED {
            &mut self.capped
        } else {
            &mut self.rated
        }
    }
}

/// A run of an activity, which ends when it is dropped.
struct Run {
    limited: Limited,
    activity: &'static str,
    number: u64,
}

impl Limited {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the activities, as a node runs them.
    pub(crate) fn activities(&self, node: u32, excuses: &Excuses) -> ActivityRegistry {
        let mut builder = ActivityRegistry::builder();
        for activity in [CAPPED, RATED] {
            let (limited, excuses) = (self.clone(), excuses.clone());
            let run = move |_: ActivityContext, millis: String| {
                let number = limited.lock().of(activity).begin(node, elapsed(), &excuses);
                let run = Run {
                    limited: limited.clone(),
                    activity,
                    number,
                };
                async move {
                    let millis = millis.parse().map_err(|_| format!("`{millis}`"))?;
                    sleep(Duration::from_millis(millis)).await;
                    drop(run);
                    Ok(activity.to_owned())
                }
            };
            builder = builder.register(activity, run);
        }
        builder.build()
    }

    /// Ends the runs of a killed node.
    pub(crate) fn forget(&self, node: u32) {
        let mut state = self.lock();
        state.capped.forget(node, elapsed());
        state.rated.forget(node, elapsed());
    }
}

/// Returns an orchestration for each activity, with its name.
pub(crate) fn orchestrations() -> OrchestrationRegistry {
    let mut builder = OrchestrationRegistry::builder();
    for activity in [CAPPED, RATED] {
        let run = move |ctx: OrchestrationContext, millis: String| async move {
            ctx.schedule_activity(activity, millis).await
        };
        builder = builder.register(activity, run);
    }
    builder.build()
}

impl Drop for Run {
    fn drop(&mut self) {
        let mut state = self.limited.lock();
        state.of(self.activity).end(self.number, elapsed());
    }
}

/// A limit and the load of its activity.
struct Load {
    activity: &'static str,
    limit: Limit,
    /// The activities of a group.
    group: u32,
    /// The longest activity.
    longest: Duration,
}

impl Load {
    fn capped(most: u32) -> Self {
        Self {
            activity: CAPPED,
            limit: Limit::Running(most),
            group: most * GROUP,
            longest: Duration::from_secs(12),
        }
    }

    /// Of a rate, with as many activities as start in 40 s.
    fn rated(rate: f64, group: u32) -> Self {
        Self {
            activity: RATED,
            limit: Limit::PerSecond(rate),
            group,
            longest: Duration::from_secs(1),
        }
    }

    /// Draws the loads of a run without other workloads: limits that so many nodes can use up.
    fn draw(seed: u64, nodes: usize) -> Vec<Self> {
        let mut random = Random::new(seed, "limits");
        let workers = WORKERS * u32::try_from(nodes).unwrap_or(1);
        let caps = [1, 2, 5, 20, 50]
            .into_iter()
            .filter(|cap| cap * 2 <= workers);
        let caps: Vec<u32> = caps.collect();
        let rates = [(0.1, 4), (1.0, 40), (8.0, 320), (20.0, 800)]
            .into_iter()
            .filter(|(rate, _)| rate * 2.0 <= f64::from(workers));
        let rates: Vec<(f64, u32)> = rates.collect();
        let cap = caps[random.below(caps.len())];
        let (rate, group) = rates[random.below(rates.len())];
        vec![Self::capped(cap), Self::rated(rate, group)]
    }

    fn rule(&self) -> Rule {
        let select = format!("activity={}", self.activity).parse();
        let rule = Rule::new(select.expect("it is valid"));
        match self.limit {
            Limit::Running(most) => rule.running(most),
            Limit::PerSecond(rate) => rule.starts_per_second(rate),
        }
    }
}

impl Caller {
    /// Sets limits, and starts groups of orchestrations with limited activities: drawn ones for a run of `only` these.
    pub(crate) async fn limited(
        &self,
        seed: u64,
        nodes: usize,
        only: bool,
        until: Instant,
    ) -> Seen {
        let loads = if only {
            Load::draw(seed, nodes)
        } else {
            vec![Load::capped(FEW)]
        };
        let mut work = Seen::default();
        let all = loads.iter().map(|load| self.load(load, seed, until));
        for seen in join_all(all).await {
            work.others += seen.others;
            work.ended.extend(seen.ended);
            work.problems.extend(seen.problems);
        }
        work
    }

    async fn load(&self, load: &Load, seed: u64, until: Instant) -> Seen {
        let activity = load.activity;
        let mut random = Random::new(seed, activity);
        let mut work = Seen::default();
        let set = keep_trying(|| self.provider.set_limit(load.rule(), "a simulation")).await;
        if let Err(error) = set {
            let problem = format!("{activity}: no limit is set: {error}");
            work.problems.push(problem);
            return work;
        }
        sleep(KNOWN).await;
        self.limited.lock().of(activity).judge(load.limit);
        let excuses = self.cluster.shared.handling.excuses.clone();
        let mut group = 0;
        while Instant::now() < until {
            let names = (0..load.group).map(|at| format!("{activity}-{group}-{at}"));
            let names: Vec<String> = names.collect();
            for name in &names {
                let millis = random.duration(load.longest / 12..load.longest);
                let millis = millis.as_millis().to_string();
                work.start(self, name, activity, &millis).await;
                self.limited.lock().of(activity).start(elapsed());
            }
            let ends = join_all(names.iter().map(|name| self.end(name, Duration::ZERO))).await;
            for (name, end) in names.iter().zip(ends) {
                if end.as_deref() != Some(activity) {
                    work.problems.push(format!("{name}: {end:?}"));
                }
            }
            self.limited.lock().of(activity).count(&excuses);
            group += 1;
            let pause = random.duration(Duration::from_secs(1)..PAUSE);
            sleep_until(until.min(Instant::now() + pause)).await;
        }
        let mut state = self.limited.lock();
        let judge = state.of(activity);
        let (share, waited) = judge.share();
        let nodes = self.cluster.profile.nodes;
        self.cluster.network.note(format!(
            "{:?} on {nodes} nodes: {share:.2} used, in {} s",
            load.limit,
            waited.as_secs()
        ));
        let is_few = matches!(load.limit, Limit::Running(most) if (most as usize) < nodes);
        let problems = judge.problems(if is_few { LEAST_OF_FEW } else { LEAST });
        work.problems
            .extend(problems.into_iter().map(|it| format!("{activity}: {it}")));
        drop(state);
        work
    }
}
