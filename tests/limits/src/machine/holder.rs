//! The state of one runtime for one key: the permits and slots that it has, and the request under way.
//!
//! [`Holder::on`] takes an answer, [`Holder::next`] decides on the next request. At most one request is under way.
//! A patch without an answer is never sent again: a fence with the same sequence number decides about it first.
//! Relies on the conditions of [`super::patches`]; never looks at items.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::document::{Entry, Line, Patch};
use super::patches::{Author, Reserved, change_rule, reap};
use super::rule::Rule;
use super::slots::Slots;
use super::{RuntimeId, Time};

/// The shortest time between two looks at a limit that is used up, and the time per place of those who stand in line.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_IN_LINE: Duration = Duration::from_millis(300);
/// The longest, for items that other runtimes can run: their permits come to the items, so looks rarely find any.
const LONGEST_LOOK: Duration = Duration::from_secs(5);
/// The time after which a holder of an unused permit of a used-up limit looks for others in line.
const IDLE_LOOK: Duration = Duration::from_millis(100);
/// The pause after a request that the service could not serve.
const RETRY: Duration = Duration::from_millis(100);
/// The slots that a runtime reserves at once, in time of the rate and besides the round trips.
const AHEAD: Duration = Duration::from_millis(500);
/// The time from an end to a start without its requests, when a permit moves to another runtime.
const HAND_OVER: Duration = Duration::from_millis(130);
/// Hand-overs cost a ninth of a permit at most.
const HAND_OVERS_APART: u32 = 8;
/// Another runtime's item is older only beyond this difference.
const OLDER: Duration = Duration::from_millis(500);
/// A document that nothing writes is deleted after an hour, so what is held is written before.
const KEPT_ALIVE: Duration = Duration::from_secs(20 * 60);

/// What the items of this runtime want of the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Want {
    /// The items that wait for a permit, apart from those that have one.
    pub(crate) permits: i64,
    /// The items that wait for a slot.
    pub(crate) slots: usize,
    /// The time since which the oldest item waits here.
    pub(crate) oldest: Option<Time>,
    /// Likewise, of the items that only this runtime can run.
    pub(crate) bound: Option<Time>,
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
enum Sent {
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
enum Unclear {
    Nothing,
    /// A patch without an answer. A fence decides whether it counts.
    Lost {
        slots: u32,
    },
    /// A fence was refused, so the patch before it counts. A read tells its effect.
    Applied {
        slots: u32,
    },
    /// A patch was refused.
    Outdated,
}

/// The permits and slots of one runtime for one key.
#[derive(Debug)]
pub(crate) struct Holder {
    me: RuntimeId,
    rule: Rule,
    seq: Option<i64>,
    /// The stored permits of this runtime, at least.
    held: i64,
    /// The permits whose items run, start, or wait for their next key.
    used: i64,
    pub(super) slots: Slots,
    sent: Option<(Sent, Time)>,
    unclear: Unclear,
    is_missing: bool,
    seen: Option<(Arc<Line>, Time)>,
    /// The average time of a request.
    round_trip: Duration,
    retry_at: Time,
    give_at: Time,
    /// The looks in a row that have found no free permit.
    fruitless: u32,
    /// Whether a permit has become free here since the last look.
    has_turned: bool,
    /// The permits that are being given or returned, which no item may use.
    owed: i64,
    /// The time since which permits are unused, and the least that were.
    unused: Option<(Time, i64)>,
    wake_at: Option<Time>,
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
            fruitless: 0,
            has_turned: false,
            owed: 0,
            unused: None,
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

    /// Returns how many more items may use a permit now.
    pub(crate) fn idle(&self) -> i64 {
        let is_limited = self.rule.running.is_some();
        let idle = (self.held - self.used - self.owed).max(0);
        if is_limited { idle } else { i64::MAX }
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

    /// Returns when to call [`Holder::next`] again, if nothing happens before.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        self.wake_at
    }

    fn note_unused(&mut self, now: Time) {
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
                self.is_missing = true;
                self.unclear = Unclear::Nothing;
            }
            Answer::Refused => {
                self.unclear = match self.unclear {
                    Unclear::Lost { slots } => Unclear::Applied { slots },
                    _ => Unclear::Outdated,
                };
                self.is_missing = false;
            }
            Answer::Busy => self.retry_at = now + RETRY,
            Answer::Lost => self.lost(sent),
        }
    }

    fn lost(&mut self, sent: Sent) {
        match sent {
            Sent::Patch { slots } | Sent::Fence { slots } => self.unclear = Unclear::Lost { slots },
            Sent::Idempotent | Sent::Create { .. } => self.unclear = Unclear::Outdated,
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

    /// Returns the next request, if one is due.
    pub(crate) fn next(
        &mut self,
        want: &Want,
        dead: &BTreeSet<RuntimeId>,
        now: Time,
    ) -> Option<Request> {
        self.wake_at = None;
        if self.sent.is_some() || self.waits_until(self.retry_at, now) {
            return None;
        }
        // What a lost patch may have given away is not assigned before its fate is known.
        if self.unclear == Unclear::Nothing {
            self.owed = 0;
        }
        let (sent, request) = self
            .clarify()
            .or_else(|| self.change_rule(now))
            .or_else(|| self.adopt())
            .or_else(|| self.reap(dead))
            .or_else(|| self.pay_back())
            .or_else(|| self.give(want, dead, now))
            .or_else(|| self.ask(want, now))
            .or_else(|| self.return_unused(want, now))
            .or_else(|| self.keep_alive(now))?;
        self.sent = Some((sent, now));
        Some(request)
    }

    /// Returns whether `at` is in the future, and wakes then.
    fn waits_until(&mut self, at: Time, now: Time) -> bool {
        if at > now {
            self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
        }
        at > now
    }

    fn clarify(&mut self) -> Option<(Sent, Request)> {
        match self.unclear {
            Unclear::Nothing => None,
            Unclear::Lost { slots } => Some((
                Sent::Fence { slots },
                Request::Patch(self.author(None).fence()),
            )),
            Unclear::Applied { .. } | Unclear::Outdated => Some((Sent::Read, Request::Read)),
        }
    }

    /// The first runtime that knows a newer rule changes the document.
    fn change_rule(&mut self, now: Time) -> Option<(Sent, Request)> {
        let line = self.line().filter(|line| line.rule < self.rule.version)?;
        let (old, new) = ((line.rule, line.cap), (self.rule.version, self.rule.cap()));
        let tat = self.rule.interval.map(|_| micros(now));
        Some((Sent::Idempotent, Request::Patch(change_rule(old, new, tat))))
    }

    /// What already runs under a new limit is deducted without a condition.
    fn adopt(&mut self) -> Option<(Sent, Request)> {
        self.rule.running?;
        let missing = self.used - self.held;
        let line = self.line()?;
        if missing <= 0 || line.rule != self.rule.version {
            return None;
        }
        let patch = self.author(None).adopt(missing, self.rule.version);
        Some((Sent::Patch { slots: 0 }, Request::Patch(patch)))
    }

    fn reap(&mut self, dead: &BTreeSet<RuntimeId>) -> Option<(Sent, Request)> {
        let line = self.line()?;
        let mut holders = line.holders.iter();
        let (id, Entry { seq, held, .. }) = holders.find(|(id, _)| dead.contains(*id))?;
        Some((Sent::Idempotent, Request::Patch(reap(id, *seq, *held))))
    }

    /// A lowered limit gets the permits of ended items back.
    fn pay_back(&mut self) -> Option<(Sent, Request)> {
        let excess = self.line().map_or(0, |line| -line.free).min(self.held);
        if excess <= 0 {
            return None;
        }
        self.owed = excess;
        let idle = (self.held - self.used).min(excess);
        (idle > 0).then(|| {
            let patch = self.author(None).give_back(idle);
            (Sent::Patch { slots: 0 }, Request::Patch(patch))
        })
    }

    /// Gives a permit to the runtime that has stood in line for the longest time, because only that runtime can run
    /// its item. Permits that move cost time, so rarely.
    fn give(
        &mut self,
        want: &Want,
        dead: &BTreeSet<RuntimeId>,
        now: Time,
    ) -> Option<(Sent, Request)> {
        if self.held == 0 {
            return None;
        }
        let line = self.line()?;
        let standing = |(id, entry): &(&RuntimeId, &Entry)| {
            entry.wants > 0 && **id != self.me && !dead.contains(*id)
        };
        let others = line.holders.iter().filter(standing);
        let (to, entry) = others.min_by_key(|(_, entry)| entry.since)?;
        let (to, since) = (to.clone(), time(entry.since));
        let is_older = want.oldest.is_none_or(|oldest| since + OLDER < oldest);
        if !is_older || want.oldest.is_some() && self.waits_until(self.give_at, now) {
            return None;
        }
        self.owed = 1;
        if self.held <= self.used {
            return None;
        }
        self.give_at = now + (HAND_OVER + self.round_trip * 3 / 2) * HAND_OVERS_APART;
        Some((
            Sent::Patch { slots: 0 },
            Request::Patch(self.author(Some(want)).give(&to)),
        ))
    }

    /// Asks for the permits and slots that items wait for.
    fn ask(&mut self, want: &Want, now: Time) -> Option<(Sent, Request)> {
        if self.rule.is_paused()
            || self
                .line()
                .is_some_and(|line| line.rule > self.rule.version)
        {
            return None;
        }
        let reserve = self.reservation(want, now);
        let permits = self.rule.running.map_or(0, |most| want.permits.min(most));
        if self.is_missing && (permits > 0 || reserve.is_some()) {
            let (from, slots) = reserve.unwrap_or((Reserved::Unused { floor: 0 }, 0));
            return Some((Sent::Create { slots }, self.create(permits, from, slots)));
        }
        self.take(permits, want, now).or_else(|| {
            let (from, slots) = reserve?;
            let by = micros(self.rule.interval?.saturating_mul(slots));
            let patch = self.author(None).reserve(self.rule.version, from, by);
            Some((Sent::Patch { slots }, Request::Patch(patch)))
        })
    }

    fn create(&self, held: i64, from: Reserved, slots: u32) -> Request {
        let interval = self.rule.interval.unwrap_or_default();
        let seq = self.seq.unwrap_or(0) + 1;
        let entry = Entry {
            held,
            seq,
            ..Entry::default()
        };
        let (Reserved::Next { floor } | Reserved::Unused { floor }) = from;
        Request::Create(Line {
            rule: self.rule.version,
            cap: self.rule.cap(),
            free: self.rule.cap() - held,
            tat: floor + micros(interval.saturating_mul(slots)),
            by: (slots > 0).then(|| (self.me.clone(), seq)),
            holders: [(self.me.clone(), entry)].into(),
        })
    }

    fn take(&mut self, permits: i64, want: &Want, now: Time) -> Option<(Sent, Request)> {
        if permits <= 0 {
            return None;
        }
        let (line, at) = match &self.seen {
            Some((line, at)) if line.free <= 0 => (line.clone(), *at),
            seen => {
                let free = seen.as_ref().map_or(permits, |(line, _)| line.free);
                let count = permits.max(permits + (free - permits) / 8).min(free);
                let patch = self.author(Some(want)).take(count, self.rule.version);
                return Some((Sent::Patch { slots: 0 }, Request::Patch(patch)));
            }
        };
        let is_in_line = line.entry(&self.me).is_some_and(|entry| entry.wants > 0);
        if want.bound.is_some() && !is_in_line {
            let patch = self.author(Some(want)).fence();
            return Some((Sent::Patch { slots: 0 }, Request::Patch(patch)));
        }
        // A holder looks for others in line when it could give, the others for free permits.
        if self.held > 0 && !self.has_turned {
            return None;
        }
        let look_at = at + self.look_after(&line, want);
        if self.waits_until(look_at, now) {
            return None;
        }
        Some((Sent::Read, Request::Read))
    }

    /// Returns the pause between two looks.
    fn look_after(&self, line: &Line, want: &Want) -> Duration {
        if let Some(since) = want.bound {
            // The sooner a gift is to be expected, the sooner.
            let before = |entry: &&Entry| entry.wants > 0 && time(entry.since) < since;
            let place = line.holders.values().filter(before).count() + 1;
            return LOOK_IN_LINE.saturating_mul(u32::try_from(place).unwrap_or(u32::MAX));
        }
        if self.held > 0 {
            return LOOK;
        }
        LONGEST_LOOK.min(LOOK * (1 << self.fruitless.min(3)))
    }

    /// Returns where to reserve how many slots.
    fn reservation(&self, want: &Want, now: Time) -> Option<(Reserved, u32)> {
        let interval = self.rule.interval?;
        let in_time =
            |time: Duration| u32::try_from(time.as_micros() / interval.as_micros().max(1));
        let most = in_time(AHEAD + self.round_trip * 2)
            .unwrap_or(u32::MAX)
            .max(1);
        let own = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        let wanted = u32::try_from(want.slots).unwrap_or(u32::MAX).min(most);
        if wanted <= own || own * 2 > most {
            return None;
        }
        // The burst: what was unused before now, and is still usable when the answer comes.
        let burst = AHEAD.saturating_sub(self.round_trip);
        let burst = if interval > burst {
            Duration::ZERO
        } else {
            burst
        };
        let floor = micros(now.saturating_sub(burst));
        let count = wanted - own;
        Some(match self.line() {
            Some(line) if line.tat >= floor => (Reserved::Next { floor }, count),
            // Unused slots before now are nobody's loss.
            _ => (
                Reserved::Unused { floor },
                count.max(in_time(burst).unwrap_or(0).min(most)),
            ),
        })
    }

    /// Returns permits that nothing has used for some time: sooner, the fewer are free. Leaves the line.
    fn return_unused(&mut self, want: &Want, now: Time) -> Option<(Sent, Request)> {
        let line = self.line()?;
        let stands = line.entry(&self.me).is_some_and(|entry| entry.wants > 0);
        if stands && want.bound.is_none() {
            let patch = self.author(Some(want)).fence();
            return Some((Sent::Patch { slots: 0 }, Request::Patch(patch)));
        }
        let kept = match line.free {
            free if free * 2 >= line.cap => Duration::from_secs(5),
            free if free > 0 => Duration::from_secs(1),
            _ => Duration::from_millis(400),
        };
        let (since, least) = self.unused?;
        if self.waits_until(since + kept, now) {
            // Runtimes that stand in line get the permit sooner than by its return.
            let is_old = self.seen.as_ref().is_some_and(|(_, at)| *at + LOOK <= now);
            let looks = line.free <= 0 && is_old && !self.waits_until(since + IDLE_LOOK, now);
            return looks.then_some((Sent::Read, Request::Read));
        }
        self.unused = None;
        self.note_unused(now);
        self.owed = least;
        let patch = self.author(Some(want)).give_back(least);
        Some((Sent::Patch { slots: 0 }, Request::Patch(patch)))
    }

    fn keep_alive(&mut self, now: Time) -> Option<(Sent, Request)> {
        let at = self.seen.as_ref()?.1;
        if self.held == 0 || self.waits_until(at + KEPT_ALIVE, now) {
            return None;
        }
        Some((
            Sent::Patch { slots: 0 },
            Request::Patch(self.author(None).fence()),
        ))
    }

    fn line(&self) -> Option<Arc<Line>> {
        self.seen.as_ref().map(|(line, _)| line.clone())
    }

    /// The author of the next patch: with the place in line that `want` asks for, or the one that is stored.
    fn author(&self, want: Option<&Want>) -> Author {
        let line = match want {
            Some(want) => want.bound.map(|since| (micros(since), 1)),
            None => {
                let entry = self
                    .seen
                    .as_ref()
                    .and_then(|(line, _)| line.entry(&self.me));
                entry.map(|entry| (entry.since, entry.wants))
            }
        };
        Author {
            id: self.me.clone(),
            seq: self.seq,
            line: line.unwrap_or_default(),
        }
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

fn time(micros: i64) -> Time {
    Time::from_micros(u64::try_from(micros).unwrap_or(0))
}
