//! What the judge sees of a run.

use std::collections::BTreeMap;

use crate::machine::{ItemId, Key, Rule, Time};
use crate::world::Scenario;

use super::report::{KeyReport, Outcome, Report};

/// The place of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Unknown,
    Waiting,
    /// A runtime has chosen the item, and locks it.
    Assigned,
    Running,
    Ended,
}

#[derive(Debug, Default)]
struct KeyRecord {
    rule: Rule,
    running: i64,
    assigned: i64,
    waiting: i64,
    at: Time,
    report: KeyReport,
}

impl KeyRecord {
    /// Counts the time since the last change.
    fn advance(&mut self, now: Time) {
        let since = now.saturating_sub(self.at).as_secs_f64();
        self.at = now;
        if let Some(most) = self.rule.running.filter(|_| self.waiting > 0) {
            let used = most.min(self.assigned + self.running);
            self.report.possible += number(most) * since;
            self.report.used += number(used) * since;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn number(count: i64) -> f64 {
    count as f64
}

/// The judge of a run.
#[derive(Debug)]
pub(crate) struct Judge<'a> {
    scenario: &'a Scenario,
    places: Vec<Place>,
    outcomes: Vec<Outcome>,
    keys: BTreeMap<Key, KeyRecord>,
    faults: Vec<String>,
    requests: usize,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(scenario: &'a Scenario) -> Self {
        let keys = scenario.rules.iter().map(|(key, rule)| {
            let rule = *rule;
            (
                key.clone(),
                KeyRecord {
                    rule,
                    ..KeyRecord::default()
                },
            )
        });
        Self {
            scenario,
            places: vec![Place::Unknown; scenario.items.len()],
            outcomes: scenario.items.iter().map(Outcome::of).collect(),
            keys: keys.collect(),
            faults: Vec::new(),
            requests: 0,
        }
    }

    pub(crate) fn waits(&mut self, item: ItemId, now: Time) {
        self.put(item, Place::Waiting, now);
    }

    pub(crate) fn assigned(&mut self, item: ItemId, now: Time) {
        if self.place(item) == Place::Waiting {
            self.put(item, Place::Assigned, now);
        }
    }

    pub(crate) fn unassigned(&mut self, item: ItemId, now: Time) {
        if self.place(item) == Place::Assigned {
            self.put(item, Place::Waiting, now);
        }
    }

    pub(crate) fn starts(&mut self, item: ItemId, now: Time) {
        self.put(item, Place::Running, now);
        let outcome = &mut self.outcomes[at(item)];
        outcome.started.get_or_insert(now);
        for key in &self.scenario.items[at(item)].keys {
            if let Some(record) = self.keys.get_mut(key) {
                record.report.starts.push(now);
                let over = record.running - record.rule.running.unwrap_or(i64::MAX);
                record.report.over = record.report.over.max(over);
            }
        }
    }

    pub(crate) fn ends(&mut self, item: ItemId, now: Time) {
        self.put(item, Place::Ended, now);
        self.outcomes[at(item)].ended = Some(now);
    }

    /// The lock of a running item has expired, so another runtime may run it.
    pub(crate) fn lost_lock(&mut self, item: ItemId, now: Time) {
        self.put(item, Place::Waiting, now);
    }

    /// A process died while it locked these items.
    pub(crate) fn died(&mut self, locking: impl Iterator<Item = ItemId>, now: Time) {
        for item in locking {
            self.unassigned(item, now);
        }
    }

    pub(crate) fn changed(&mut self, key: &Key, rule: Rule, now: Time) {
        let record = self.keys.entry(key.clone()).or_default();
        record.advance(now);
        record.rule = rule;
    }

    pub(crate) fn fault(&mut self, fault: &str, now: Time) {
        if self.faults.len() < 10 {
            self.faults.push(format!("at {now:?}: {fault}"));
        }
    }

    pub(crate) fn requested(&mut self, key: &Key) {
        self.requests += 1;
        if let Some(record) = self.keys.get_mut(key) {
            record.report.requests += 1;
        }
    }

    pub(crate) fn report(mut self, now: Time) -> Report {
        self.keys
            .values_mut()
            .for_each(|record| record.advance(now));
        let keys = self.keys.into_iter();
        let keys = keys.map(|(key, record)| {
            (
                key,
                KeyReport {
                    rule: record.rule,
                    ..record.report
                },
            )
        });
        Report {
            scenario: self.scenario.name.clone(),
            seed: self.scenario.seed,
            items: self.outcomes,
            keys: keys.collect(),
            faults: self.faults,
            requests: self.requests,
        }
    }

    fn place(&self, item: ItemId) -> Place {
        self.places[at(item)]
    }

    fn put(&mut self, item: ItemId, place: Place, now: Time) {
        let before = std::mem::replace(&mut self.places[at(item)], place);
        for key in &self.scenario.items[at(item)].keys {
            let Some(record) = self.keys.get_mut(key) else {
                continue;
            };
            record.advance(now);
            for (place, by) in [(before, -1), (place, 1)] {
                match place {
                    Place::Waiting => record.waiting += by,
                    Place::Assigned => record.assigned += by,
                    Place::Running => record.running += by,
                    Place::Unknown | Place::Ended => {}
                }
            }
        }
    }
}

fn at(item: ItemId) -> usize {
    usize::try_from(item).unwrap_or(usize::MAX)
}
