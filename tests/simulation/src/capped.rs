//! Activities with a limit, and its judge: no more of them run at a time, on nodes that no fault
//! explains, than the limit permits; and each of them ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cdb_chaos::keep_trying;
use cdb_provider::documents::Rule;
use duroxide::ActivityContext;
use duroxide::runtime::registry::ActivityRegistry;
use futures::future::join_all;
use tokio::time::{Instant, sleep, sleep_until};

use crate::excuses::{Excuses, Scope};
use crate::random::Random;
use crate::virtual_time::elapsed;
use crate::workload::{Caller, Seen};

/// The activity, and the most that may run at a time.
pub(crate) const CAPPED: &str = "Capped";
const LIMIT: u32 = 2;

/// The time after which every node knows the limit.
const KNOWN: Duration = Duration::from_secs(60);

/// The time of a fault that explains a run of too many: the term of permits and the time to start a
/// node.
const EXPLAINED: Duration = Duration::from_secs(60);

/// The longest pause between two groups.
const PAUSE: Duration = Duration::from_secs(300);

/// The instances of a group.
const GROUP: usize = 6;

/// The limited activities that run now, on all nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Capped(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    is_limited: bool,
    runs: u64,
    /// The node and the start of each run.
    running: BTreeMap<u64, (u32, Duration)>,
    problems: Vec<String>,
}

/// A run of the activity.
struct Run {
    capped: Capped,
    number: u64,
}

impl Capped {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the activity, as a node runs it.
    pub(crate) fn activity(&self, node: u32, excuses: &Excuses) -> ActivityRegistry {
        let (capped, excuses) = (self.clone(), excuses.clone());
        let run = move |_: ActivityContext, millis: String| {
            let run = capped.begin(node, &excuses);
            async move {
                let millis = millis.parse().map_err(|_| format!("`{millis}`"))?;
                sleep(Duration::from_millis(millis)).await;
                drop(run);
                Ok("capped".to_owned())
            }
        };
        ActivityRegistry::builder().register(CAPPED, run).build()
    }

    fn begin(&self, node: u32, excuses: &Excuses) -> Run {
        let now = elapsed();
        let mut state = self.lock();
        state.runs += 1;
        let number = state.runs;
        state.running.insert(number, (node, now));
        // A node that a fault has cut off may go on with what it had started.
        let is_explained = |(node, since): &(u32, Duration)| {
            let span = since.saturating_sub(EXPLAINED)..now;
            let concerns = |scope: &Scope| match scope {
                Scope::Node(impaired) => impaired == node,
                Scope::Loads => false,
                Scope::Everything | Scope::Partition(..) => true,
            };
            !excuses.time(&span, concerns).is_zero()
        };
        let counted = state.running.values().filter(|run| !is_explained(run));
        let counted = counted.count();
        if state.is_limited && counted > LIMIT as usize {
            let running: Vec<_> = state.running.values().collect();
            let problem = format!(
                "{CAPPED}: {counted} run at {} s, {LIMIT} may: {running:?}",
                now.as_secs()
            );
            state.problems.push(problem);
        }
        Run {
            capped: self.clone(),
            number,
        }
    }

    /// Forgets the runs of a killed node.
    pub(crate) fn forget(&self, node: u32) {
        self.lock().running.retain(|_, (of, _)| *of != node);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.capped.lock().running.remove(&self.number);
    }
}

impl Caller {
    /// Sets a limit, and starts groups of orchestrations with the limited activity.
    pub(crate) async fn capped(&self, seed: u64, until: Instant) -> Seen {
        let mut random = Random::new(seed, "capped");
        let mut work = Seen::default();
        let rule = || {
            let select = format!("activity={CAPPED}").parse();
            Rule::new(select.expect("it is valid")).running(LIMIT)
        };
        let set = keep_trying(|| self.provider.set_limit(rule(), "a simulation")).await;
        if let Err(error) = set {
            work.problems
                .push(format!("{CAPPED}: no limit is set: {error}"));
            return work;
        }
        sleep(KNOWN).await;
        self.capped.lock().is_limited = true;
        let mut group = 0;
        while Instant::now() < until {
            let names = (0..GROUP).map(|at| format!("{CAPPED}-{group}-{at}"));
            let names: Vec<String> = names.collect();
            for name in &names {
                let millis = random.duration(Duration::from_secs(1)..Duration::from_secs(12));
                let millis = millis.as_millis().to_string();
                work.start(self, name, CAPPED, &millis).await;
            }
            let ends = join_all(names.iter().map(|name| self.end(name, Duration::ZERO))).await;
            for (name, end) in names.iter().zip(ends) {
                if end.as_deref() != Some("capped") {
                    work.problems.push(format!("{name}: {end:?}"));
                }
            }
            group += 1;
            let pause = random.duration(Duration::from_secs(1)..PAUSE);
            sleep_until(until.min(Instant::now() + pause)).await;
        }
        let problems = std::mem::take(&mut self.capped.lock().problems);
        work.problems.extend(problems);
        work
    }
}
