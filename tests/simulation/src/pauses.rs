//! Instances that an operator pauses and resumes, and their judge: no activity begins during a pause
//! unless a node had it before, and each instance ends after its last pause.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cdb_chaos::keep_trying;
use cdb_provider::Extent;
use duroxide::ActivityContext;
use duroxide::runtime::registry::ActivityRegistry;
use tokio::time::{Instant, sleep};

use crate::excuses::{Excuses, Scope};
use crate::random::Random;
use crate::virtual_time::elapsed;
use crate::workload::{Caller, Seen};

/// The orchestration and its activity.
pub(crate) const PAUSED: &str = "Paused";

/// The time for which a healthy node may have an activity before it begins it.
const HANDED_OUT: Duration = Duration::from_secs(5);

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

impl Caller {
    /// Starts an instance after the other, and pauses each several times.
    pub(crate) async fn pauses(&self, seed: u64, until: Instant) -> Seen {
        let mut random = Random::new(seed, "pauses");
        let mut work = Seen::default();
        while Instant::now() < until {
            let name = format!("{PAUSED}-{}", work.others);
            work.start(self, &name, PAUSED, &name).await;
            for _ in 0..PAUSES {
                sleep(random.duration(Duration::from_secs(1)..Duration::from_secs(20))).await;
                let paused = self
                    .provider
                    .pause(&name, Extent::Tree, "a simulation")
                    .await;
                match paused {
                    Ok(_) => {
                        let since = &mut self.pauses.lock().since;
                        since.insert(name.clone(), elapsed());
                    }
                    // It has not begun, or has ended.
                    Err(error) if !error.is_retryable() => continue,
                    // It may be paused, with activities that are not held back.
                    Err(_) => {}
                }
                sleep(random.duration(Duration::from_secs(1)..Duration::from_secs(300))).await;
                self.pauses.lock().since.remove(&name);
                let resumed = keep_trying(|| self.provider.resume(&name, Extent::Tree)).await;
                if let Err(error) = resumed {
                    work.problems
                        .push(format!("{name}: cannot be resumed: {error}"));
                }
            }
            let end = self.end(&name, Duration::ZERO).await;
            if end.as_deref() != Some("resumed") {
                work.problems.push(format!("{name}: {end:?}"));
            }
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
}
