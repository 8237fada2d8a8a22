//! The queued and running activities of an instance, with the limits that they wait for.

use std::fmt;

use cdb_model::Timestamp;
use cdb_provider::documents::WorkerItem;
use cdb_provider::observe::KeyUse;
use serde::Serialize;

use crate::container::Orchestrations;
use crate::exit::Failure;
use crate::output::{short, span};
use crate::view::queues::limited_keys::Key;

/// The most equal lines of an answer that are written each; more become one line.
pub(super) const ALIKE: usize = 3;

/// A queued or running activity.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Activity {
    pub what: String,
    pub event: u64,
    pub due_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked_until: Option<Timestamp>,
    pub attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The limits that the activity waits for: those that are used up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<KeyUse>,
}

/// Describes the activities of an instance, in their order.
pub(super) async fn read(
    orchestrations: &Orchestrations,
    activities: Vec<WorkerItem>,
    now: Timestamp,
) -> Result<Vec<Activity>, Failure> {
    let limits = limits_of(orchestrations, &activities, now).await?;
    let activities = activities.into_iter().zip(limits);
    let described = activities.map(|(item, limits)| Activity {
        what: orchestrations.describe(item.work_item.header()),
        event: item.activity_id,
        due_at: item.enqueued_at,
        locked_until: item.locked_until.filter(|until| *until > now),
        attempts: item.attempt_count,
        tag: item.tag,
        session: item.session_id,
        limits,
    });
    Ok(described.collect())
}

/// Returns the used-up limits of each activity that is due and not locked.
async fn limits_of(
    orchestrations: &Orchestrations,
    activities: &[WorkerItem],
    now: Timestamp,
) -> Result<Vec<Vec<KeyUse>>, Failure> {
    let is_waiting = |item: &WorkerItem| {
        item.visible_at <= now && item.locked_until.is_none_or(|until| until <= now)
    };
    if !activities.iter().any(is_waiting) {
        return Ok(vec![Vec::new(); activities.len()]);
    }
    let mut used_up = orchestrations
        .provider
        .observe()
        .used_up(activities)
        .await?;
    for (item, limits) in activities.iter().zip(&mut used_up) {
        if !is_waiting(item) {
            limits.clear();
        }
    }
    Ok(used_up)
}

/// Shows activities as lines.
pub(super) struct Lines<'a> {
    pub(super) activities: &'a [Activity],
    pub(super) now: Timestamp,
}

impl Lines<'_> {
    /// Returns what lines of alike activities have in common.
    fn alike<'a>(&self, of: &'a Activity) -> (&'a str, bool, u32, Vec<&'a str>) {
        let is_due = of.locked_until.is_none() && of.due_at <= self.now;
        let limits = of.limits.iter().map(|limit| &*limit.key).collect();
        (&of.what, is_due, of.attempts, limits)
    }
}

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = self
            .activities
            .chunk_by(|a, b| self.alike(a) == self.alike(b));
        for group in groups {
            let [first, rest @ ..] = group else {
                continue;
            };
            let is_due = self.alike(first).1;
            let shown = if is_due && rest.len() >= ALIKE {
                self.line(f, first, rest.len())?;
                &[]
            } else {
                group
            };
            for activity in shown {
                self.line(f, activity, 0)?;
            }
        }
        Ok(())
    }
}

impl Lines<'_> {
    /// Writes the line of an activity, which stands for `more` of its kind.
    fn line(&self, f: &mut fmt::Formatter<'_>, of: &Activity, more: usize) -> fmt::Result {
        let what = short(&of.what, 100);
        write!(f, "activity: {what} #{}, ", of.event)?;
        if more > 0 {
            write!(f, "and {more} more, ")?;
        }
        match of.locked_until {
            Some(until) => write!(f, "running, locked for {}", span(until.since(self.now)))?,
            None => f.write_str(&due(of.due_at, self.now))?,
        }
        fetched(f, of.attempts)?;
        let mut limits = of.limits.iter();
        limits.try_for_each(|limit| writeln!(f, "  waits for the limit {}", Key(limit)))
    }
}

pub(super) fn due(at: Timestamp, now: Timestamp) -> String {
    if at > now {
        format!("due in {}", span(at.since(now)))
    } else {
        format!("due for {}", span(now.since(at)))
    }
}

pub(super) fn fetched(f: &mut fmt::Formatter<'_>, attempts: u32) -> fmt::Result {
    match attempts {
        0 => writeln!(f),
        1 => writeln!(f, ", fetched once"),
        attempts => writeln!(f, ", fetched {attempts} times"),
    }
}
