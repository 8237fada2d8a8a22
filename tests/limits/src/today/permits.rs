//! Transcribes `provider/src/operate/limits/permits.rs`: rounds that renew the permits of the keys that are due, at
//! most [`CONCURRENCY`] at a time, each by a read and a conditional replacement.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::machine::{Key, Time};

use super::limiter::{Allowance, Limited};
use super::share::{Demand, Division, Permits, divide, is_alone, own};

/// `timing.rs`, `permits.rs` line 22, `services.rs` line 27.
const RENEWED: Duration = Duration::from_secs(5);
const MARGIN: Duration = Duration::from_secs(1);
const ASKED: Duration = Duration::from_millis(500);
const ANSWER: Duration = Duration::from_secs(2);
const MAX_ATTEMPTS: u32 = 5;
const CONCURRENCY: usize = 16;

/// A document with its version.
pub(crate) type Stored = (u64, Permits);

/// A request about the document of a key.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Read,
    /// Writes the permits if the version is still this one; without permits, deletes the document.
    Write(Option<u64>, Permits),
}

#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Read(Option<Stored>),
    /// The new version; `None` if another runtime was faster.
    Written(Option<u64>),
    Lost,
}

/// Lines 25 to 35.
#[derive(Debug)]
struct Held {
    demand: Demand,
    stored: Option<Stored>,
    written_at: Time,
    renew_at: Time,
    ask_at: Option<Time>,
}

impl Held {
    fn next(&self) -> Time {
        self.ask_at.unwrap_or(self.renew_at).min(self.renew_at)
    }
}

/// A renewal under way: lines 245 to 311.
#[derive(Debug)]
struct Renewal {
    began_at: Time,
    attempts: u32,
    before: Option<Stored>,
    division: Option<(Demand, Division)>,
}

/// The task that obtains permits.
#[derive(Debug, Default)]
pub(super) struct Obtaining {
    held: BTreeMap<Key, Held>,
    /// The keys of the round that wait for their turn, and those under way.
    due: VecDeque<Key>,
    renewals: BTreeMap<Key, Renewal>,
    pub(super) is_wanted: bool,
}

pub(crate) type Keys = BTreeMap<Key, Limited>;

impl Obtaining {
    /// Returns when the next round begins.
    pub(super) fn next_round(&self) -> Option<Time> {
        let is_idle = self.due.is_empty() && self.renewals.is_empty();
        let next = self.held.values().map(Held::next).min();
        next.filter(|_| is_idle)
    }

    /// Lines 129 to 192: begins a round if one is due, and returns the requests of its first keys.
    pub(super) fn round(&mut self, me: &Key, keys: &mut Keys, now: Time) -> Vec<(Key, Request)> {
        let is_idle = self.due.is_empty() && self.renewals.is_empty();
        let is_due = self.is_wanted || self.next_round().is_some_and(|at| at <= now);
        if is_idle && is_due {
            self.is_wanted = false;
            self.note_demands(me, keys, now);
            let due = self.held.iter().filter(|(_, held)| held.next() <= now);
            self.due = due.map(|(key, _)| key.clone()).collect();
        }
        let mut requests = Vec::new();
        while self.renewals.len() < CONCURRENCY
            && let Some(key) = self.due.pop_front()
        {
            let request = self.begin(me, &key, keys, now);
            requests.push((key, request));
        }
        requests
    }

    fn note_demands(&mut self, me: &Key, keys: &Keys, now: Time) {
        for (key, limited) in keys {
            let demand = limited.demand();
            let is_paused = demand.rule.running == Some(0);
            match self.held.get_mut(key) {
                None if demand.running == 0 && (demand.waiting == 0 || is_paused) => {}
                None => {
                    let new = Held {
                        demand,
                        stored: None,
                        written_at: now,
                        renew_at: now,
                        ask_at: None,
                    };
                    self.held.insert(key.clone(), new);
                }
                Some(known) => {
                    let before = known.demand;
                    let wants_more = demand.waiting > 0
                        && demand.running + demand.waiting > before.running + before.waiting;
                    let is_shared = known
                        .stored
                        .as_ref()
                        .is_some_and(|(_, permits)| !is_alone(permits, me));
                    if before.rule != demand.rule {
                        known.renew_at = now;
                    } else if !is_paused && is_shared && wants_more {
                        known.ask_at = Some((known.written_at + ASKED).max(now));
                    }
                    known.demand.rule = demand.rule;
                }
            }
        }
    }

    /// The version that only this runtime has written is not read again.
    fn begin(&mut self, me: &Key, key: &Key, keys: &mut Keys, now: Time) -> Request {
        let held = self.held.get(key).and_then(|held| held.stored.clone());
        let known = held.filter(|(_, permits)| is_alone(permits, me));
        let renewal = Renewal {
            began_at: now,
            attempts: 1,
            before: known.clone(),
            division: None,
        };
        self.renewals.insert(key.clone(), renewal);
        if known.is_some() {
            self.write(me, key, keys, now)
        } else {
            Request::Read
        }
    }

    /// Lines 315 to 345: lowers what may start before the write.
    fn write(&mut self, me: &Key, key: &Key, keys: &mut Keys, now: Time) -> Request {
        let Some(renewal) = self.renewals.get_mut(key) else {
            return Request::Read;
        };
        let mut demand = keys.get(key).map(Limited::demand).unwrap_or_default();
        if demand.rule.running == Some(0) {
            demand.waiting = 0;
        }
        let empty = Permits::new();
        let before = renewal
            .before
            .as_ref()
            .map_or(&empty, |(_, permits)| permits);
        let division = divide(before, me, &demand, now);
        let rate =
            own(&division.permits, me).map_or(0.0, |holder| f64::from(holder.starts) / 1_000.0);
        if let Some(limited) = keys.get_mut(key) {
            let allowance = Allowance {
                running: Some(division.may_run),
                rate: Some(rate),
                until: now,
            };
            limited.lower(allowance);
        }
        let etag = renewal.before.as_ref().map(|(etag, _)| *etag);
        let request = Request::Write(etag, division.permits.clone());
        renewal.division = Some((demand, division));
        request
    }

    /// Handles the answer for a key, and returns its next request.
    pub(super) fn on(
        &mut self,
        me: &Key,
        key: &Key,
        reply: Reply,
        keys: &mut Keys,
        now: Time,
    ) -> Option<Request> {
        let renewal = self.renewals.get_mut(key)?;
        if now > renewal.began_at + ANSWER || matches!(reply, Reply::Lost) {
            self.failed(key, now);
            return None;
        }
        match reply {
            Reply::Read(stored) => {
                renewal.before = stored;
                Some(self.write(me, key, keys, now))
            }
            Reply::Written(Some(etag)) => {
                self.written(me, key, etag, keys, now);
                None
            }
            Reply::Written(None) if renewal.attempts < MAX_ATTEMPTS => {
                renewal.attempts += 1;
                Some(Request::Read)
            }
            Reply::Written(None) | Reply::Lost => {
                self.failed(key, now);
                None
            }
        }
    }

    /// Lines 206 to 215.
    fn failed(&mut self, key: &Key, now: Time) {
        self.renewals.remove(key);
        if let Some(held) = self.held.get_mut(key) {
            held.stored = None;
            held.written_at = now;
            held.renew_at = now + ASKED;
            held.ask_at = None;
        }
    }

    /// Lines 217 to 236.
    fn written(&mut self, me: &Key, key: &Key, etag: u64, keys: &mut Keys, now: Time) {
        let renewal = self.renewals.remove(key);
        let Some((demand, division)) = renewal.and_then(|renewal| renewal.division) else {
            return;
        };
        let holder = own(&division.permits, me);
        let allowance = holder.map(|holder| Allowance {
            running: demand.rule.running.map(|_| division.may_run),
            rate: demand
                .rule
                .interval
                .map(|_| f64::from(holder.starts) / 1_000.0),
            until: holder.until.saturating_sub(MARGIN),
        });
        if let Some(limited) = keys.get_mut(key) {
            limited.allowance = allowance;
        }
        if allowance.is_none() {
            self.held.remove(key);
            return;
        }
        let stored = Some((etag, division.permits));
        let renewed = Held {
            demand,
            stored,
            written_at: now,
            renew_at: now + RENEWED,
            ask_at: None,
        };
        self.held.insert(key.clone(), renewed);
    }
}
