//! Instances whose start is queued, by the reason why they wait.

use std::collections::BTreeMap;
use std::fmt;

use cdb_provider::observe::{StartState, Unstarted};

use crate::container::limits_of_starts;
use crate::output::short;

/// The instances whose start is queued, by the reason why they wait.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting {
    /// By orchestration and version: runtimes have fetched and abandoned them.
    pub unknown: BTreeMap<String, Vec<Unstarted>>,
    /// No runtime has fetched them.
    pub unfetched: Vec<Unstarted>,
    /// No runtime has fetched them, which limits may be the reason for.
    pub limited: Vec<Unstarted>,
}

impl Waiting {
    pub(crate) fn of(unstarted: &[Unstarted]) -> Self {
        let mut waiting = Self::default();
        for start in unstarted {
            let group = match start.state {
                StartState::Limited => &mut waiting.limited,
                StartState::Unfetched => &mut waiting.unfetched,
                StartState::Unknown => waiting.unknown.entry(start.required_type()).or_default(),
                _ => continue,
            };
            group.push(start.clone());
        }
        // The order of the queue changes with each attempt.
        let groups = waiting.unknown.values_mut();
        groups.for_each(|group| group.sort_by(|a, b| a.id.cmp(&b.id)));
        waiting
    }
}

/// Names the first of some instances, and counts the others.
pub(crate) fn named(instances: &[Unstarted]) -> String {
    match instances {
        [] => String::new(),
        [one] => format!("`{}`", short(&one.id, 120)),
        [first, rest @ ..] => format!("`{}` and {} more", short(&first.id, 120), rest.len()),
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (required_type, instances) in &self.unknown {
            let required_type = short(required_type, 80);
            writeln!(
                f,
                "waiting for a runtime that knows {required_type}: {}",
                named(instances)
            )?;
        }
        match &*self.unfetched {
            [] => {}
            some => writeln!(f, "waiting for a runtime: {}", named(some))?,
        }
        match &*self.limited {
            [] => Ok(()),
            some @ [first, ..] => {
                let limits = limits_of_starts(&first.limits);
                writeln!(f, "not begun: {}; {limits}", named(some))
            }
        }
    }
}
