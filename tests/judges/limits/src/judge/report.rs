//! The figures of a run, and what is wrong with them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::machine::{Key, Priority, Rule, Time};
use crate::world::Item;

use super::perfect::longest_wait;

/// What happened to an item.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) node: usize,
    pub(crate) born: Time,
    pub(crate) duration: Duration,
    pub(crate) keys: Vec<Key>,
    pub(crate) priority: Priority,
    pub(crate) started: Option<Time>,
    pub(crate) ended: Option<Time>,
}

impl Outcome {
    pub(super) fn of(item: &Item) -> Self {
        Self {
            node: item.node,
            born: item.born,
            duration: item.duration,
            keys: item.keys.clone(),
            priority: item.priority,
            started: None,
            ended: None,
        }
    }

    pub(crate) fn wait(&self) -> Option<Duration> {
        Some(self.started?.saturating_sub(self.born))
    }
}

/// The figures of a key.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyReport {
    pub(crate) rule: Rule,
    /// All starts, those after a lost lock too.
    pub(crate) starts: Vec<Time>,
    /// The most items that ran beyond the limit, as of their starts.
    pub(crate) over: i64,
    /// Seconds of permits that were used while items waited, and that there were.
    pub(crate) used: f64,
    pub(crate) possible: f64,
    pub(crate) requests: usize,
}

impl KeyReport {
    /// Returns the part of the limit that was used while anything waited.
    pub(crate) fn share(&self) -> f64 {
        if self.possible > 0.0 {
            self.used / self.possible
        } else {
            1.0
        }
    }

    /// Returns the most starts beyond r·t in any window of t seconds.
    pub(crate) fn burst(&self) -> f64 {
        let Some(interval) = self.rule.interval else {
            return 0.0;
        };
        let (mut least, mut most) = (f64::MAX, 0.0_f64);
        let mut earlier = 0.0;
        for start in &self.starts {
            let ahead = earlier - start.as_secs_f64() / interval.as_secs_f64();
            least = least.min(ahead);
            earlier += 1.0;
            most = most.max(ahead - least + 1.0);
        }
        most
    }

    /// Returns the promised burst: max(1, r·1 s) + 1.
    pub(crate) fn promised_burst(&self) -> f64 {
        let rate = self
            .rule
            .interval
            .map_or(0.0, |interval| 1.0 / interval.as_secs_f64());
        rate.max(1.0) + 1.0
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) scenario: String,
    pub(crate) seed: u64,
    pub(crate) items: Vec<Outcome>,
    pub(crate) keys: BTreeMap<Key, KeyReport>,
    pub(crate) faults: Vec<String>,
    pub(crate) requests: usize,
}

impl Report {
    /// Returns what must never happen, with the name and the seed of the run.
    pub(crate) fn violations(&self) -> Vec<String> {
        let mut found = self.faults.clone();
        for (key, report) in &self.keys {
            if report.over > 0 {
                found.push(format!("{} more than the limit of {key} ran", report.over));
            }
            // A hair of rounding.
            if report.burst() > report.promised_burst() + 0.001 {
                let (burst, promised) = (report.burst(), report.promised_burst());
                found.push(format!(
                    "{burst:.2} starts beyond the rate of {key}, promised {promised:.2}"
                ));
            }
        }
        let of_run = |violation| format!("{} (seed {}): {violation}", self.scenario, self.seed);
        found.into_iter().map(of_run).collect()
    }

    pub(crate) fn ended(&self) -> usize {
        self.items
            .iter()
            .filter(|item| item.ended.is_some())
            .count()
    }

    pub(crate) fn started(&self) -> usize {
        self.items
            .iter()
            .filter(|item| item.started.is_some())
            .count()
    }

    /// Returns the least share of the keys.
    pub(crate) fn share(&self) -> f64 {
        self.keys.values().map(KeyReport::share).fold(1.0, f64::min)
    }

    pub(crate) fn over(&self) -> i64 {
        self.keys
            .values()
            .map(|key| key.over)
            .max()
            .unwrap_or(0)
            .max(0)
    }

    /// Returns the longest wait beyond that of a perfect scheduler, for runs with one key.
    pub(crate) fn longest_excess(&self) -> Duration {
        let excess = self.keys.iter().map(|(key, report)| {
            let items: Vec<_> = self
                .items
                .iter()
                .filter(|item| item.keys.contains(key))
                .collect();
            let waits = items
                .iter()
                .map(|item| item.wait().unwrap_or(Duration::MAX));
            let longest = waits.max().unwrap_or_default();
            longest.saturating_sub(longest_wait(&items, report.rule))
        });
        excess.max().unwrap_or_default()
    }

    pub(crate) fn last_start(&self) -> Duration {
        self.items
            .iter()
            .map(|item| item.started.unwrap_or(Duration::MAX))
            .max()
            .unwrap_or_default()
    }

    pub(crate) fn last_end(&self) -> Duration {
        self.items
            .iter()
            .map(|item| item.ended.unwrap_or(Duration::MAX))
            .max()
            .unwrap_or_default()
    }

    /// Returns the requests about limits per started item.
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    pub(crate) fn requests_per_start(&self) -> f64 {
        self.requests as f64 / self.started().max(1) as f64
    }
}
