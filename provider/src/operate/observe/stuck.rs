//! Instances and activities that do not go on although their messages, or they themselves, are due.

use std::collections::BTreeSet;
use std::time::Duration;

use cdb_model::Timestamp;

use super::sample::{self, Instances};
use super::unstarted::most_attempts;
use crate::stored::documents::{Hold, Instance, WorkerItem};
use crate::stored::payload::Payloads;
use crate::timing::LONG_LOCK;

/// The number of attempts that is reported. duroxide fails a message after 10 attempts.
const MANY_ATTEMPTS: u32 = 5;

/// An instance that does not go on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StuckInstance {
    /// The id of the instance.
    pub id: String,
    /// Its orchestration.
    pub orchestration: String,
    /// The version of its orchestration.
    pub version: Option<String>,
    /// What keeps it.
    pub obstacle: Obstacle,
}

/// An activity that does not end.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StuckActivity {
    /// The instance that scheduled it.
    pub instance: String,
    /// The id of the event that scheduled it.
    pub id: u64,
    /// What keeps it: its attempts or its lock.
    pub obstacle: Obstacle,
}

/// What keeps an instance or activity from going on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Obstacle {
    /// The code of the runtimes cannot execute the turn.
    Held(Hold),
    /// It was fetched at least five times, this often, and neither committed nor completed.
    Attempts(u32),
    /// It is locked for unusually long: more than ten minutes from now.
    Locked {
        /// The rest of the lock.
        rest: Duration,
    },
}

impl Obstacle {
    fn of(attempts: u32, locked_until: Option<Timestamp>, now: Timestamp) -> Option<Self> {
        if attempts >= MANY_ATTEMPTS {
            return Some(Self::Attempts(attempts));
        }
        let rest = locked_until?.since(now);
        (rest > LONG_LOCK).then_some(Self::Locked { rest })
    }
}

/// Returns the stuck ones of some instances. Those that have not started wait for their orchestration.
pub(super) fn instances<'a>(
    ids: impl Iterator<Item = &'a String>,
    known: &Instances,
    payloads: &Payloads,
    now: Timestamp,
) -> Vec<StuckInstance> {
    let found = ids.filter_map(|id| known.get(id));
    let started = found.filter(|instance| instance.is_created());
    let stuck = started.filter_map(|instance| {
        Some(StuckInstance {
            obstacle: obstacle(instance, payloads, now)?,
            id: instance.instance_id.clone(),
            orchestration: instance.orchestration_name.clone(),
            version: instance.orchestration_version.clone(),
        })
    });
    stuck.collect()
}

fn obstacle(instance: &Instance, payloads: &Payloads, now: Timestamp) -> Option<Obstacle> {
    if let Some(held) = &instance.held {
        return Some(Obstacle::Held(Hold {
            reason: payloads.readable(held.reason.clone()),
            ..held.clone()
        }));
    }
    let locked_until = sample::lock_end(instance, now);
    Obstacle::of(most_attempts(instance), locked_until, now)
}

/// Returns the stuck ones of some activities, each once.
pub(super) fn activities<'a>(
    items: impl Iterator<Item = &'a WorkerItem>,
    now: Timestamp,
) -> Vec<StuckActivity> {
    let mut seen = BTreeSet::new();
    let new = items.filter(|item| {
        let (execution, activity) = (item.execution_id, item.activity_id);
        seen.insert((&*item.instance_id, execution, activity))
    });
    let stuck = new.filter_map(|item| {
        Some(StuckActivity {
            obstacle: Obstacle::of(item.attempt_count, item.locked_until, now)?,
            instance: item.instance_id.clone(),
            id: item.activity_id,
        })
    });
    stuck.collect()
}
