//! Instances that operators pause and resume, and their judge: no activity begins during a pause,
//! and each instance ends after its last pause. So do instances that wait for each other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cdb_chaos::keep_trying;
use cdb_provider::{CosmosDBProvider, TreeScope};
use duroxide::ActivityContext;
use duroxide::providers::ProviderError;
use duroxide::runtime::registry::ActivityRegistry;
use tokio::time::{Instant, sleep};

use crate::excuses::{Excuses, Scope};
use crate::operators::Operator;
use crate::random::Random;
use crate::virtual_time::elapsed;
use crate::workload::{Caller, Seen, WorkPlan};

/// The orchestration and its activity.
pub(crate) const PAUSED: &str = "Paused";

/// Instances that wait for each other.
pub(crate) const CIRCLE: &str = "PausedCircle";

/// The time for which a healthy node may have an activity before it begins it, after a pause has
/// returned. Messages take a few milliseconds.
const HANDED_OUT: Duration = Duration::from_millis(500);

/// The time before a pause from which faults count: the longest call of a client.
const BEFORE: Duration = Duration::from_secs(60);

/// The pauses of an instance.
const PAUSES: usize = 3;

/// The current pauses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pauses(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The begin of each, by instance.
    since: BTreeMap<String, Duration>,
    begun: u64,
    problems: Vec<String>,
}

impl Pauses {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the activity, as a node runs it.
    pub(crate) fn activity(&self, node: u32, excuses: &Excuses) -> ActivityRegistry {
        let (pauses, excuses) = (self.clone(), excuses.clone());
        let run = move |_: ActivityContext, instance: String| {
            pauses.begin(node, &instance, &excuses);
            async move {
                sleep(Duration::from_secs(5)).await;
                Ok(instance)
            }
        };
        ActivityRegistry::builder().register(PAUSED, run).build()
    }

    fn begin(&self, node: u32, instance: &str, excuses: &Excuses) {
        let now = elapsed();
        let mut state = self.lock();
        state.begun += 1;
        let Some(since) = state.since.get(instance).copied() else {
            return;
        };
        let concerns = |scope: &Scope| match scope {
            Scope::Node(impaired) => *impaired == node,
            Scope::Loads => false,
            Scope::Everything | Scope::Partition(..) => true,
        };
        // A node that stood still, or got its answers late, begins what it had before.
        let faults = excuses.time(&(since.saturating_sub(BEFORE)..now), concerns);
        if now > since + HANDED_OUT + faults {
            state.problems.push(format!(
                "{instance}: an activity begins at {} s on node {node}; paused since {} s",
                now.as_secs(),
                since.as_secs()
            ));
        }
    }
}

/// What an operator did to an instance.
type Done = Result<Result<Vec<String>, ProviderError>, String>;

async fn pause(operator: &mut Operator, name: &str) -> Done {
    let what = format!("{name}: a pause");
    let pause = async |provider: &CosmosDBProvider| {
        provider.pause(name, TreeScope::Tree, "a simulation").await
    };
    operator.run(&what, pause).await
}

async fn resume(operator: &mut Operator, name: &str) -> Done {
    let what = format!("{name}: a resumption");
    let resume = async |provider: &CosmosDBProvider| provider.resume(name, TreeScope::Tree).await;
    operator.run(&what, resume).await
}

impl Caller {
    /// Starts an instance after the other, and pauses each several times. Two operators stand still
    /// at times, and do the same or the opposite at once.
    pub(crate) async fn pauses(&self, plan: &WorkPlan) -> Seen {
        let mut random = Random::new(plan.seed, "pauses");
        let mut work = Seen::default();
        let opened = (
            Operator::new(&plan.outside, plan.seed, "first operator").await,
            Operator::new(&plan.outside, plan.seed, "second operator").await,
        );
        let (mut first, mut second) = match opened {
            (Ok(first), Ok(second)) => (first, second),
            (Err(error), _) | (_, Err(error)) => return Seen::of(vec![error]),
        };
        while Instant::now() < plan.until {
            let name = format!("{PAUSED}-{}", work.others);
            work.start(self, &name, PAUSED, &name).await;
            for _ in 0..PAUSES {
                let pause = self.pause_once(&name, &mut random, &mut first, &mut second);
                work.problems.extend(pause.await);
            }
            let end = self.end(&name, Duration::ZERO).await;
            if end.as_deref() != Some("resumed") {
                work.problems.push(format!("{name}: {end:?}"));
            }
            let problems = self.pause_circle(&mut work, &mut first).await;
            work.problems.extend(problems.err());
        }
        let mut state = self.pauses.lock();
        if state.begun == 0 && work.others > 0 {
            work.problems
                .push(format!("{PAUSED}: no activity has begun"));
        }
        work.problems.append(&mut state.problems);
        drop(state);
        work
    }

    /// Pauses and resumes an instance. Returns what is wrong.
    async fn pause_once(
        &self,
        name: &str,
        random: &mut Random,
        first: &mut Operator,
        second: &mut Operator,
    ) -> Vec<String> {
        sleep(random.duration(Duration::from_secs(1)..Duration::from_secs(20))).await;
        let (late, lasting) = (
            random.duration(Duration::ZERO..Duration::from_secs(20)),
            random.duration(Duration::from_secs(1)..Duration::from_secs(300)),
        );
        let both_pause = random.chance(50);
        let begin = async {
            let paused = pause(first, name).await;
            // It may not have begun, or have ended.
            if matches!(paused, Ok(Ok(_))) {
                let since = &mut self.pauses.lock().since;
                since.insert(name.to_owned(), elapsed());
            }
            sleep(lasting).await;
            self.pauses.lock().since.remove(name);
            let resumed = resume(first, name).await;
            [paused.err(), problem(name, resumed)]
        };
        let also = async {
            sleep(late).await;
            if !both_pause {
                return None;
            }
            // It may go on after the resumption.
            pause(second, name).await.err()
        };
        let (first_ended, also) = tokio::join!(begin, also);
        // The last command decides, also if two run it at once.
        let resumed = tokio::join!(resume(first, name), resume(second, name));
        let resumed = [problem(name, resumed.0), problem(name, resumed.1)];
        let all = first_ended.into_iter().chain([also]).chain(resumed);
        all.flatten().collect()
    }

    /// Pauses, resumes and deletes two instances that wait for each other.
    async fn pause_circle(&self, work: &mut Seen, operator: &mut Operator) -> Result<(), String> {
        let (left, right) = (
            format!("{CIRCLE}-{}-left", work.others),
            format!("{CIRCLE}-{}-right", work.others),
        );
        work.start(self, &left, CIRCLE, &right).await;
        sleep(Duration::from_secs(10)).await;
        // It may not have begun.
        let _not_found = pause(operator, &left).await?;
        let resumed = resume(operator, &left).await;
        if let Some(problem) = problem(&left, resumed) {
            return Err(problem);
        }
        let cancelled = keep_trying(|| self.client.cancel_instance(&*left, "enough")).await;
        cancelled.map_err(|error| format!("{left}: it cannot be cancelled: {error}"))?;
        match self.end(&left, Duration::ZERO).await {
            Some(_) => Ok(()),
            None => Err(format!("{left}: it does not end")),
        }
    }
}

/// Returns why an instance cannot be resumed. One that has not begun cannot be paused either.
fn problem(name: &str, resumed: Done) -> Option<String> {
    match resumed {
        Err(problem) => Some(problem),
        Ok(Err(error)) if !error.message.contains("not found") => {
            Some(format!("{name}: cannot be resumed: {error}"))
        }
        Ok(_) => None,
    }
}
