//! The activities that workers run, by runtime.

use std::collections::BTreeMap;

use cdb_client::Result;
use cdb_model::Timestamp;
use serde::Serialize;

use super::members::{self, Group};
use super::sample::{self, Container};
use crate::stored::documents::WorkerItem;

/// The locked activities that are read.
const SAMPLE: u32 = 200;

/// The activities that a runtime runs.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BusyRuntime {
    /// The name of the member. `None` without membership: then locks do not name their runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// The activities that it runs, of the 200 whose locks end first.
    pub activities: u64,
    /// The one of them that was scheduled first.
    pub longest: RunningActivity,
}

/// An activity that a worker runs.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunningActivity {
    /// The name of the activity and the id of the event that scheduled it, `Charge #2`.
    pub activity: String,
    /// The instance that scheduled it.
    pub instance: String,
    /// The time at which it was scheduled.
    pub scheduled_at: Timestamp,
}

/// Reads the locked activities.
pub(super) async fn read(container: &Container, now: Timestamp) -> Result<Vec<BusyRuntime>> {
    let locked = sample::activities(container, WorkerItem::VISIBLE_AT.gt(now), SAMPLE);
    let locked = by_incarnation(locked.await?.items.iter(), now);
    if !locked.keys().any(Option::is_some) {
        return Ok(named(locked, None));
    }
    let group = members::read(container, None).await?;
    Ok(named(locked, Some(&group)))
}

/// Returns the locked ones of some activities.
pub(super) fn of<'a>(
    activities: impl Iterator<Item = &'a WorkerItem>,
    group: &Group,
    now: Timestamp,
) -> Vec<BusyRuntime> {
    let later = activities.filter(|item| item.visible_at > now);
    named(
        by_incarnation(later.take(SAMPLE as usize), now),
        Some(group),
    )
}

fn by_incarnation<'a>(
    activities: impl Iterator<Item = &'a WorkerItem>,
    now: Timestamp,
) -> BTreeMap<Option<String>, Vec<RunningActivity>> {
    let mut found: BTreeMap<Option<String>, Vec<RunningActivity>> = BTreeMap::new();
    for item in activities.filter(|item| item.locked_until > Some(now)) {
        let Some(token) = &item.lock_token else {
            continue;
        };
        // A member's incarnation precedes the random part of its tokens.
        let incarnation = token.split_once('/').map(|(incarnation, _)| incarnation);
        let running = found.entry(incarnation.map(str::to_owned)).or_default();
        running.push(RunningActivity {
            activity: item.described(),
            instance: item.instance_id.clone(),
            scheduled_at: item.enqueued_at,
        });
    }
    found
}

fn named(
    found: BTreeMap<Option<String>, Vec<RunningActivity>>,
    group: Option<&Group>,
) -> Vec<BusyRuntime> {
    let name = |incarnation: String| {
        let name = group.and_then(|group| group.names.get(&incarnation));
        name.cloned().unwrap_or(incarnation)
    };
    let busy = found.into_iter().filter_map(|(incarnation, running)| {
        Some(BusyRuntime {
            runtime: incarnation.map(name),
            activities: running.len() as u64,
            longest: running.into_iter().min_by_key(|one| one.scheduled_at)?,
        })
    });
    busy.collect()
}
