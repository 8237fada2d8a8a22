//! The state of one runtime for one key: the permits and slots that it has, and the request under way.
//!
//! [`Holder::on`] takes an answer, [`Holder::next`] decides on the next request. At most one request is under way.
//! A patch without an answer is never sent again: a fence with the same sequence number decides about it first.
//! Relies on the conditions of [`super::patches`]; never looks at items.

use std::sync::Arc;
use std::time::Duration;

use super::document::{Line, Patch};
use super::rule::Rule;
use super::slots::Slots;
use super::timing::{KEPT_ALIVE, RETRY};
use super::{RuntimeId, Time};

/// The least number of free permits that are plenty: others may want a few at the same time.
const PLENTY: i64 = 5;

/// The most entries of a document before those without permits are looked at.
const CROWDED: usize = 64;

/// What the items of this runtime want of the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Want {
    /// The items that wait for a permit, apart from those that have one.
    pub(crate) permits: i64,
    /// The items that wait for a slot.
    pub(crate) slots: usize,
    /// The time since which the oldest item waits here.
    pub(crate) oldest: Option<Time>,
    /// The time since which this runtime stands in line: an item is old, or keeps the permits of earlier keys.
    pub(crate) line: Option<Time>,
    /// Whether an item keeps the permits of earlier keys.
    pub(crate) keeps: bool,
}

/// A request about the document of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Patch(Patch),
    Read,
    Create(Line),
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// The document after a successful request.
    Line(Arc<Line>),
    /// The patch was not applied, or the document to create exists.
    Refused,
    Missing,
    /// Not applied, because of too many concurrent requests.
    Busy,
    /// The request may be applied, now or later.
    Lost,
}

/// The request under way. `slots` are the slots that it reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Patch {
        slots: u32,
    },
    Fence {
        slots: u32,
    },
    /// A patch that is idempotent by its conditions: reap, rule change.
    Idempotent,
    Read,
    Create {
        slots: u32,
    },
}

/// What has to be clarified before anything else is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unclear {
    Nothing,
    /// A patch without an answer. A fence decides whether it counts.
    Lost {
        slots: u32,
    },
    /// A fence was refused, so the patch before it counts. A read tells its effect.
    Applied {
        slots: u32,
    },
    /// A create without an answer. Another create decides about it.
    LostCreate,
    /// A patch was refused.
    Outdated,
}

/// The permits and slots of one runtime for one key.
#[derive(Debug)]
pub(crate) struct Holder {
    pub(super) me: RuntimeId,
    pub(super) rule: Rule,
    pub(super) seq: Option<i64>,
    /// The stored permits of this runtime, at least.
    pub(super) held: i64,
    /// The permits whose items run, start, or wait for their next key.
    pub(super) used: i64,
    pub(super) slots: Slots,
    pub(super) sent: Option<(Sent, Time)>,
    pub(super) unclear: Unclear,
    pub(super) is_missing: bool,
    pub(super) seen: Option<(Arc<Line>, Time)>,
    /// The average time of a request.
    pub(super) round_trip: Duration,
    pub(super) retry_at: Time,
    pub(super) give_at: Time,
    /// When a patch was refused, if none has succeeded since: a duplicate may still arrive.
    pub(super) refused_at: Option<Time>,
    /// The looks in a row that have found no free permit.
    pub(super) fruitless: u32,
    /// Whether a permit has become free here since the last look.
    pub(super) has_turned: bool,
    /// The permits that are being given or returned, which no item may use.
    pub(super) owed: i64,
    /// The time since which permits are unused, and the least that were.
    pub(super) unused: Option<(Time, i64)>,
    /// Whether the process ends: it asks for nothing, and returns at once what it does not use.
    pub(super) is_closing: bool,
    pub(super) wake_at: Option<Time>,
}

impl Holder {
    pub(crate) fn new(me: RuntimeId, rule: Rule) -> Self {
        Self {
            me,
            rule,
            seq: None,
            held: 0,
            used: 0,
            slots: Slots::default(),
            sent: None,
            unclear: Unclear::Nothing,
            is_missing: false,
            seen: None,
            round_trip: Duration::from_millis(50),
            retry_at: Time::ZERO,
            give_at: Time::ZERO,
            refused_at: None,
            fruitless: 0,
            has_turned: false,
            owed: 0,
            unused: None,
            is_closing: false,
            wake_at: None,
        }
    }

    pub(crate) fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Applies a newer rule. Slots of another rate are void.
    pub(crate) fn set_rule(&mut self, rule: Rule) {
        if rule.version > self.rule.version {
            if rule.interval != self.rule.interval {
                self.slots.clear();
            }
            self.rule = rule;
        }
    }

    /// Returns how many more items may use a permit now. None while the document counts by an older limit, and none of
    /// those that a lowered limit gets back.
    pub(crate) fn idle(&self) -> i64 {
        if self.rule.running.is_none() {
            return i64::MAX;
        }
        let line = self.seen.as_ref().map(|(line, _)| line);
        if line.is_none_or(|line| line.rule < self.rule.version) {
            return 0;
        }
        let excess = line.map_or(0, |line| -line.free);
        (self.held - self.used - self.owed.max(excess)).max(0)
    }

    /// Returns whether many permits are known to be free, and half of all.
    pub(crate) fn is_plenty(&self) -> bool {
        let is_free =
            |line: &Line| line.rule == self.rule.version && line.free >= PLENTY.max(line.cap / 2);
        let seen = self.seen.as_ref();
        self.rule.running.is_some()
            && self.rule.interval.is_none()
            && seen.is_some_and(|(line, _)| is_free(line))
    }

    /// Returns whether an item may get a permit, as far as is known.
    pub(crate) fn may_get(&self) -> bool {
        let has_free = || self.seen.as_ref().is_none_or(|(line, _)| line.free > 0);
        !self.rule.is_paused() && (self.rule.running.is_none() || self.idle() > 0 || has_free())
    }

    /// Returns the other runtimes whose lease may have ended: those with permits of a key that is wanted here, and all
    /// of a key with many, or the entries of former processes would fill the document.
    pub(crate) fn suspects(&self, is_wanted: bool) -> impl Iterator<Item = RuntimeId> {
        let is_crowded = |line: &Line| line.holders.len() > CROWDED;
        let lines = self.seen.iter().map(|(line, _)| line);
        let others = lines.flat_map(move |line| {
            let is_crowded = is_crowded(line);
            let entries = line.holders.iter().filter(|(id, _)| **id != self.me);
            entries.filter(move |(_, entry)| is_crowded || is_wanted && entry.held > 0)
        });
        others.map(|(id, _)| id.clone())
    }

    /// Returns whether the key was not in use for long, so that nothing needs to be known of it.
    pub(crate) fn is_unused(&self, now: Time) -> bool {
        let is_idle = self.used == 0 && self.held == 0 && self.slots.len(now) == 0;
        let is_clear = self.unclear == Unclear::Nothing && self.refused_at.is_none();
        let is_old = |seen: &(Arc<Line>, Time)| seen.1 + KEPT_ALIVE < now;
        is_idle && is_clear && self.sent.is_none() && self.seen.as_ref().is_some_and(is_old)
    }

    /// Counts an item that uses a permit.
    pub(crate) fn acquire(&mut self, now: Time) {
        self.used += 1;
        self.note_unused(now);
    }

    /// Counts an item that does not use its permit any more.
    pub(crate) fn release(&mut self, now: Time) {
        self.used -= 1;
        self.has_turned = true;
        self.note_unused(now);
    }

    /// Counts no item any more.
    pub(crate) fn release_all(&mut self, now: Time) {
        self.used = 0;
        self.note_unused(now);
    }

    /// Returns when to call [`Holder::next`] again, if nothing happens before.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        self.wake_at
    }

    pub(super) fn note_unused(&mut self, now: Time) {
        let idle = self.held - self.used;
        self.unused = (idle > 0).then(|| match self.unused {
            Some((since, least)) => (since, least.min(idle)),
            None => (now, idle),
        });
    }

    /// Notes the answer to the request under way.
    pub(crate) fn on(&mut self, answer: Answer, now: Time) {
        let Some((sent, at)) = self.sent.take() else {
            return;
        };
        match answer {
            Answer::Line(line) => {
                self.round_trip = (self.round_trip * 3 + now.saturating_sub(at)) / 4;
                self.succeeded(sent, line, now);
            }
            Answer::Missing => {
                self.note_refused(sent, now);
                self.is_missing = true;
                self.unclear = Unclear::Nothing;
            }
            Answer::Refused => {
                self.note_refused(sent, now);
                self.unclear = match self.unclear {
                    Unclear::Lost { slots } => Unclear::Applied { slots },
                    _ => Unclear::Outdated,
                };
                self.is_missing = false;
            }
            Answer::Busy => self.retry_at = now + RETRY,
            Answer::Lost => {
                self.retry_at = now + RETRY;
                self.lost(sent);
            }
        }
    }

    fn note_refused(&mut self, sent: Sent, now: Time) {
        if matches!(sent, Sent::Patch { .. }) {
            self.refused_at = Some(now);
        }
    }

    fn lost(&mut self, sent: Sent) {
        match sent {
            Sent::Patch { slots } | Sent::Fence { slots } => self.unclear = Unclear::Lost { slots },
            Sent::Create { .. } => self.unclear = Unclear::LostCreate,
            Sent::Idempotent => self.unclear = Unclear::Outdated,
            Sent::Read => {}
        }
        self.is_missing = false;
    }

    fn succeeded(&mut self, sent: Sent, line: Arc<Line>, now: Time) {
        let seq = line.entry(&self.me).map(|entry| entry.seq);
        // A replica that lags behind this runtime's own patches tells nothing.
        let known = self.seq.map(|seq| match self.unclear {
            Unclear::Applied { .. } => seq + 1,
            _ => seq,
        });
        if sent == Sent::Read && seq < known && seq.is_some() {
            self.retry_at = now + RETRY;
            return;
        }
        let slots = match (sent, self.unclear) {
            (Sent::Patch { slots } | Sent::Create { slots }, _) => slots,
            // The reservation is lost if another one has followed.
            (Sent::Read, Unclear::Applied { slots })
                if line.by == seq.map(|seq| (self.me.clone(), seq)) =>
            {
                slots
            }
            _ => 0,
        };
        if let Some(interval) = self.rule.interval.filter(|_| slots > 0) {
            self.slots.add(time(line.tat), interval, slots);
        }
        if matches!(
            sent,
            Sent::Patch { .. } | Sent::Fence { .. } | Sent::Create { .. }
        ) {
            self.refused_at = None;
        }
        self.unclear = Unclear::Nothing;
        self.is_missing = false;
        self.seq = seq;
        self.held = line.entry(&self.me).map_or(0, |entry| entry.held);
        let is_fruitless = sent == Sent::Read && line.free <= 0;
        self.fruitless = if is_fruitless { self.fruitless + 1 } else { 0 };
        self.has_turned = false;
        self.seen = Some((line, now));
        self.note_unused(now);
    }
}

pub(super) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

pub(super) fn time(micros: i64) -> Time {
    Time::from_micros(u64::try_from(micros).unwrap_or(0))
}
