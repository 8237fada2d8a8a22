//! The queued and running activities of an instance, with the limits that they wait for.

use std::fmt;

use cdb_model::Timestamp;
use cdb_provider::observe::QueuedActivity;

use crate::output::{short, span};
use crate::view::queues::limited_keys::Key;

/// The most equal lines of an answer that are written each; more become one line.
pub(super) const ALIKE: usize = 3;

/// Shows activities as lines.
pub(super) struct Lines<'a> {
    pub(super) activities: &'a [QueuedActivity],
    pub(super) now: Timestamp,
}

impl Lines<'_> {
    /// Returns what lines of alike activities have in common.
    fn alike<'a>(&self, of: &'a QueuedActivity) -> (&'a str, bool, u32, Vec<&'a str>) {
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
    fn line(&self, f: &mut fmt::Formatter<'_>, of: &QueuedActivity, more: usize) -> fmt::Result {
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
