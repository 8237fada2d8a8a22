//! Instances that operators pause and resume, and their judge: no activity begins during a pause,
//! and each instance ends after its last pause. So do instances that wait for each other.

use std::collections::BTreeMap;

use cdb_provider::{CosmosDBProvider, TreeScope};
use duroxide::providers::ProviderError;

use crate::excuses::Excuses;
use crate::operators::Operator;
use crate::workload::prelude::*;

/// The orchestration and its activity.
const PAUSED: &str = "Paused";

/// Instances that wait for each other.
const CIRCLE: &str = "PausedCircle";

/// The time for which a healthy node may have an activity before it begins it, after a pause has
/// returned. Messages take a few milliseconds.
const HANDED_OUT: Duration = Duration::from_millis(500);

/// The time before a pause from which faults count: the longest call of a client.
const BEFORE: Duration = Duration::from_secs(60);

/// The pauses of an instance.
const PAUSES: usize = 3;

/// The current pauses.
#[derive(Clone, Debug, Default)]
pub(super) struct Paused(Guarded<State>);

#[derive(Debug, Default)]
struct State {
    /// The begin of each, by instance.
    since: BTreeMap<String, Duration>,
    begun: u64,
    problems: Vec<String>,
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

#[async_trait(?Send)]
impl Workload for Paused {
    fn about(&self) -> About {
        About::half("paused", "Instances that an operator pauses and resumes")
    }

    fn activities(&self, all: Activities, node: &StartingNode<'_>) -> Activities {
        let (paused, excuses, number) = (self.clone(), node.excuses.clone(), node.number);
        let run = move |_, instance: String| {
            paused.begin(number, &instance, &excuses);
            async move {
                sleep(Duration::from_secs(5)).await;
                Ok(instance)
            }
        };
        all.register(PAUSED, run)
    }

    fn orchestrations(&self, all: Orchestrations, _: u32) -> Orchestrations {
        all.register(PAUSED, run_paused)
            .register(CIRCLE, run_circle)
    }

    /// They may be paused.
    fn explains_wait(&self, instance: &str, due: &Durable) -> bool {
        !matches!(due, Durable::OutboxIntent(_)) && instance.starts_with(PAUSED)
    }

    /// Starts an instance after the other, and pauses each several times. Two operators stand still
    /// at times, and do the same or the opposite at once.
    async fn run(&self, caller: &Caller) -> Seen {
        let mut random = Random::new(caller.seed, "pauses");
        let mut work = Seen::default();
        let (outside, seed) = (&caller.outside, caller.seed);
        let opened = (
            Operator::new(outside, seed, "first operator").await,
            Operator::new(outside, seed, "second operator").await,
        );
        let (mut first, mut second) = match opened {
            (Ok(first), Ok(second)) => (first, second),
            (Err(error), _) | (_, Err(error)) => return Seen::of(vec![error]),
        };
        while caller.goes_on() {
            let name = format!("{PAUSED}-{}", work.others);
            work.start(caller, &name, PAUSED, &name).await;
            for _ in 0..PAUSES {
                let pause = self.pause_once(&name, &mut random, &mut first, &mut second);
                work.problems.extend(pause.await);
            }
            work.problems.extend(caller.misses(&name, "resumed").await);
            let problems = pause_circle(caller, &mut work, &mut first).await;
            work.problems.extend(problems.err());
        }
        let mut state = self.0.lock();
        if state.begun == 0 && work.others > 0 {
            work.problems
                .push(format!("{PAUSED}: no activity has begun"));
        }
        work.problems.append(&mut state.problems);
        work
    }
}

impl Paused {
    fn begin(&self, node: u32, instance: &str, excuses: &Excuses) {
        let now = elapsed();
        let mut state = self.0.lock();
        state.begun += 1;
        let Some(since) = state.since.get(instance).copied() else {
            return;
        };
        // A node that stood still, or got its answers late, begins what it had before.
        let faults = excuses.time(&(since.saturating_sub(BEFORE)..now), |it| it.explains(node));
        if now > since + HANDED_OUT + faults {
            state.problems.push(format!(
                "{instance}: an activity begins at {} s on node {node}; paused since {} s",
                now.as_secs(),
                since.as_secs()
            ));
        }
    }

    /// Pauses and resumes an instance. Returns what is wrong.
    async fn pause_once(
        &self,
        name: &str,
        random: &mut Random,
        first: &mut Operator,
        second: &mut Operator,
    ) -> Vec<String> {
        sleep(random.duration(SECOND..Duration::from_secs(20))).await;
        let (late, lasting) = (
            random.duration(Duration::ZERO..Duration::from_secs(20)),
            random.duration(SECOND..Duration::from_secs(300)),
        );
        let both_pause = random.chance(50);
        let begin = async {
            let paused = pause(first, name).await;
            // It may not have begun, or have ended.
            if matches!(paused, Ok(Ok(_))) {
                let since = &mut self.0.lock().since;
                since.insert(name.to_owned(), elapsed());
            }
            sleep(lasting).await;
            self.0.lock().since.remove(name);
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
}

/// Pauses, resumes and deletes two instances that wait for each other.
async fn pause_circle(
    caller: &Caller,
    work: &mut Seen,
    operator: &mut Operator,
) -> Result<(), String> {
    let (left, right) = (
        format!("{CIRCLE}-{}-left", work.others),
        format!("{CIRCLE}-{}-right", work.others),
    );
    work.start(caller, &left, CIRCLE, &right).await;
    sleep(Duration::from_secs(10)).await;
    // It may not have begun.
    let _not_found = pause(operator, &left).await?;
    let resumed = resume(operator, &left).await;
    if let Some(problem) = problem(&left, resumed) {
        return Err(problem);
    }
    let cancelled = keep_trying(|| caller.client.cancel_instance(&*left, "enough")).await;
    cancelled.map_err(|error| format!("{left}: it cannot be cancelled: {error}"))?;
    match caller.end(&left).await {
        Some(_) => Ok(()),
        None => Err(format!("{left}: it does not end")),
    }
}

/// Runs more activities at a time than few nodes have workers, so that some wait when it is paused.
async fn run_paused(ctx: OrchestrationContext, instance: String) -> Result<String, String> {
    for _ in 0..3 {
        let all = (0..20).map(|_| ctx.schedule_activity(PAUSED, &*instance));
        for ended in ctx.join(all.collect()).await {
            ended?;
        }
        ctx.schedule_timer(Duration::from_secs(5)).await;
    }
    Ok("resumed".to_owned())
}

/// Waits for the other instance of a pair, which waits for this one.
async fn run_circle(ctx: OrchestrationContext, other: String) -> Result<String, String> {
    let own = ctx.instance_id();
    ctx.schedule_sub_orchestration_with_id(CIRCLE, other, own)
        .await
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
