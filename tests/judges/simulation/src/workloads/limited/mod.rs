//! Activities with limits. Judged on both sides: never more than the limits permit, and their use while anything
//! waits; and each activity ends.

mod judge;

use cdb_provider::documents::Rule;
use futures::future::join_all;

use crate::caller::differs;
use crate::node::{NodeConfig, WORKERS};
use crate::profile::Profile;
use crate::workload::prelude::*;

use judge::{Judge, Limit};

/// The activity with a limit of what runs at a time.
const CAPPED: &str = "Capped";

/// The activity with a limit of starts per second.
const RATED: &str = "Rated";

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
pub(super) struct Limited(Guarded<State>);

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

#[async_trait(?Send)]
impl Workload for Limited {
    fn about(&self) -> About {
        About::half(
            "limited",
            "Activities with limits; alone on up to 50 nodes, far from the service",
        )
    }

    fn profile(&self, seed: u64, time: Duration) -> Profile {
        let mut random = Random::new(seed, "profile of limits");
        let nodes = [1, 2, 3, 8, 20, 50][random.below(6)];
        let distance = [0, 20, 150, 400][random.below(4)];
        let drawn = Profile::draw(seed, time);
        Profile {
            nodes,
            distance: Duration::from_millis(distance),
            bystander: nodes > 1 && drawn.bystander,
            node: NodeConfig {
                members: nodes > 1 && drawn.node.members,
                ..drawn.node
            },
            ..drawn
        }
    }

    fn activities(&self, all: Activities, node: &StartingNode<'_>) -> Activities {
        let register = |all: Activities, activity: &'static str| {
            let (limited, excuses, node) = (self.clone(), node.excuses.clone(), node.number);
            let run = move |_, millis: String| {
                let mut state = limited.0.lock();
                let run = Run {
                    limited: limited.clone(),
                    activity,
                    number: state.of(activity).begin(node, elapsed(), &excuses),
                };
                async move {
                    sleep(Duration::from_millis(number(&millis)?)).await;
                    drop(run);
                    Ok(activity.to_owned())
                }
            };
            all.register(activity, run)
        };
        [CAPPED, RATED].into_iter().fold(all, register)
    }

    fn orchestrations(&self, all: Orchestrations, _: u32) -> Orchestrations {
        [CAPPED, RATED].into_iter().fold(all, |all, activity| {
            all.register(activity, move |ctx, millis| async move {
                ctx.schedule_activity(activity, millis).await
            })
        })
    }

    fn killed(&self, node: u32) {
        let mut state = self.0.lock();
        state.capped.forget(node, elapsed());
        state.rated.forget(node, elapsed());
    }

    fn explains_wait(&self, _: &str, due: &Durable) -> bool {
        let Durable::WorkerItem(item) = due else {
            return false;
        };
        let labels = item.labels.as_ref();
        labels.is_some_and(|labels| [CAPPED, RATED].contains(&&*labels.activity))
    }

    /// Sets limits, and starts groups of orchestrations with limited activities.
    async fn run(&self, caller: &Caller) -> Seen {
        let loads = match caller.only {
            Some(_) => Load::draw(caller.seed, caller.cluster.profile.nodes),
            None => vec![Load::capped(FEW)],
        };
        let all = loads.iter().map(|load| self.load(caller, load));
        join_all(all).await.into_iter().collect()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let mut state = self.limited.0.lock();
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

impl Limited {
    async fn load(&self, caller: &Caller, load: &Load) -> Seen {
        let activity = load.activity;
        let mut random = Random::new(caller.seed, activity);
        let mut work = Seen::default();
        let set = keep_trying(|| caller.provider.set_limit(load.rule(), "a simulation")).await;
        if let Err(error) = set {
            let problem = format!("{activity}: no limit is set: {error}");
            work.problems.push(problem);
            return work;
        }
        sleep(KNOWN).await;
        self.0.lock().of(activity).judge(load.limit);
        let excuses = &caller.cluster.shared.excuses;
        let mut group = 0;
        while caller.goes_on() {
            let names = (0..load.group).map(|at| format!("{activity}-{group}-{at}"));
            let names: Vec<String> = names.collect();
            for name in &names {
                let millis = random.duration(load.longest / 12..load.longest);
                let millis = millis.as_millis().to_string();
                work.start(caller, name, activity, &millis).await;
                self.0.lock().of(activity).start(elapsed());
            }
            let ends = join_all(names.iter().map(|name| caller.end(name))).await;
            for (name, end) in names.iter().zip(ends) {
                let problem = differs(name, end.as_deref(), activity);
                work.problems.extend(problem);
            }
            self.0.lock().of(activity).count(excuses);
            group += 1;
            caller.rest(&mut random, SECOND..PAUSE).await;
        }
        let mut state = self.0.lock();
        let judge = state.of(activity);
        let (share, waited) = judge.share();
        let nodes = caller.cluster.profile.nodes;
        caller.cluster.network.note(format!(
            "{:?} on {nodes} nodes: {share:.2} used, in {} s",
            load.limit,
            waited.as_secs()
        ));
        let is_few = matches!(load.limit, Limit::Running(most) if (most as usize) < nodes);
        let problems = judge.problems(if is_few { LEAST_OF_FEW } else { LEAST });
        work.problems
            .extend(problems.into_iter().map(|it| format!("{activity}: {it}")));
        work
    }
}
