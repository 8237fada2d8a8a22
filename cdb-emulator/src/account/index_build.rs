//! Index transformations that take as long as on a service with much data.
//!
//! The store rebuilds the indexes at once. This state keeps the former policy in force until the
//! progress is 100: a sort then has to be served by both policies, as on the service (index-policy:
//! modifying the indexing policy). It is not stored, so a restart completes all builds.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::time::{Clock, millis};

/// How long the index transformation after a change of the indexing policy takes.
///
/// ```
/// use std::time::Duration;
/// use cdb_emulator::{Emulator, IndexBuild};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), cdb_emulator::EmulatorError> {
/// let emulator = Emulator::builder()
///     .index_build(IndexBuild::Lasting(Duration::from_secs(5)))
///     .start()
///     .await?;
/// // … a change of the indexing policy: a new composite serves no `ORDER BY` for 5 seconds
/// emulator.change(|settings| settings.index_build(IndexBuild::Held))?; // the next one waits for `set_index_progress`
/// # emulator.stop().await; Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub enum IndexBuild {
    /// Complete when the policy is replaced.
    #[default]
    Immediate,
    /// At least this long; the progress grows evenly. In JSON `{ "lastingMs": 5000 }`.
    #[serde(rename = "lastingMs", with = "millis")]
    Lasting(Duration),
    /// Until `Emulator::set_index_progress` sets the progress to 100.
    Held,
}

/// The index transformations of all containers.
#[derive(Debug)]
pub(crate) struct IndexBuilds {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pace: IndexBuild,
    /// By the number of the container.
    builds: HashMap<i64, Build>,
}

#[derive(Debug)]
struct Build {
    former: Value,
    pace: IndexBuild,
    begun: Duration,
    /// The progress that was set.
    reached: u8,
}

impl Build {
    /// Returns the progress in percent.
    fn progress(&self, now: Duration) -> u8 {
        let elapsed = match self.pace {
            IndexBuild::Immediate => 100,
            IndexBuild::Held => 0,
            IndexBuild::Lasting(duration) => {
                let elapsed = now.saturating_sub(self.begun).as_millis() * 100;
                let percent = elapsed.checked_div(duration.as_millis()).unwrap_or(100);
                u8::try_from(percent).unwrap_or(100)
            }
        };
        elapsed.max(self.reached).min(100)
    }
}

impl IndexBuilds {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is valid between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets how long the next transformations take.
    pub(crate) fn set_pace(&self, pace: IndexBuild) {
        self.state().pace = pace;
    }

    pub(crate) fn pace(&self) -> IndexBuild {
        self.state().pace
    }

    /// Begins the transformation of a container whose policy was `former`. The policy before all
    /// transformations that are not complete stays in force.
    pub(crate) fn begin(&self, container: i64, former: &Value) {
        let former = self.former(container).unwrap_or_else(|| former.clone());
        let mut state = self.state();
        if state.pace == IndexBuild::Immediate {
            state.builds.remove(&container);
            return;
        }
        let build = Build {
            former,
            pace: state.pace,
            begun: self.clock.monotonic(),
            reached: 0,
        };
        state.builds.insert(container, build);
    }

    /// Returns the policy that a sort needs beside the current one; `None` if the indexes of a
    /// container are complete.
    pub(crate) fn former(&self, container: i64) -> Option<Value> {
        let mut state = self.state();
        let build = state.builds.get(&container)?;
        if build.progress(self.clock.monotonic()) < 100 {
            return Some(build.former.clone());
        }
        state.builds.remove(&container);
        None
    }

    /// Returns the progress of a container in percent.
    pub(crate) fn progress(&self, container: i64) -> u8 {
        let (state, now) = (self.state(), self.clock.monotonic());
        let build = state.builds.get(&container);
        build.map_or(100, |build| build.progress(now))
    }

    /// Sets the progress of a container; the progress never decreases.
    pub(crate) fn set_progress(&self, container: i64, percent: u8) {
        if let Some(build) = self.state().builds.get_mut(&container) {
            build.reached = build.reached.max(percent);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_oldest_policy_stays_in_force_until_the_build_is_complete() {
        let builds = IndexBuilds::new(Clock::machine());
        builds.begin(1, &json!("first"));
        assert_eq!(builds.former(1), None, "it is immediate by default");
        builds.set_pace(IndexBuild::Held);
        builds.begin(1, &json!("first"));
        builds.begin(1, &json!("second"));
        assert_eq!(builds.former(1), Some(json!("first")));
        builds.set_progress(1, 99);
        builds.set_progress(1, 50);
        assert_eq!((builds.progress(1), builds.progress(2)), (99, 100));
        builds.set_progress(1, 100);
        assert_eq!((builds.former(1), builds.progress(1)), (None, 100));
    }

    #[test]
    fn the_progress_grows_with_the_time() {
        let builds = IndexBuilds::new(Clock::machine());
        builds.set_pace(IndexBuild::Lasting(Duration::from_secs(3600)));
        builds.begin(1, &json!({}));
        assert_eq!(builds.progress(1), 0);
        builds.set_pace(IndexBuild::Lasting(Duration::ZERO));
        builds.begin(1, &json!({}));
        assert_eq!(builds.progress(1), 100);
    }
}
