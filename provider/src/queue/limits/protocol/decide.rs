//! What a runtime does next about one key: the rules of the protocol, in the order of their precedence.
//!
//! Each rule returns a request or `None`, so that the next rule decides. Rules that wait for a time note it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::document::{Entry, Line};
use super::holder::{Holder, Request, Sent, Unclear, Want, micros, time};
use super::patches::{Author, Reserved, change_rule, reap};
use super::timing::{
    AHEAD, FORESTALLED_AFTER, HAND_OVER, IDLE_LOOK, KEPT_ALIVE, KEPT_OF_MANY, KEPT_OF_NONE,
    KEPT_OF_SOME, LONGEST_LOOK, LOOK, LOOK_IN_LINE, OLDER,
};
use super::{RuntimeId, Time};

/// Hand-overs cost a ninth of a permit at most.
const HAND_OVERS_APART: u32 = 8;

impl Holder {
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
            .or_else(|| self.forestall(now))
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
            Unclear::LostCreate => {
                let nothing = Reserved::Unused { floor: 0 };
                Some((Sent::Create { slots: 0 }, self.create(0, nothing, 0)))
            }
            Unclear::Applied { .. } | Unclear::Outdated => Some((Sent::Read, Request::Read)),
        }
    }

    /// The first runtime that knows a newer rule changes the document.
    fn change_rule(&mut self, now: Time) -> Option<(Sent, Request)> {
        let line = self.line().filter(|line| line.rule < self.rule.version)?;
        let tat = self.rule.interval.map(|_| micros(now));
        let patch = change_rule(&line, &self.rule, tat);
        Some((Sent::Idempotent, Request::Patch(patch)))
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

    /// Gives a permit to the runtime that has stood in line for the longest time, if the items here are younger: this
    /// runtime cannot run the older one, or it would know it. Permits that move cost time, so rarely.
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
        if self.is_closing
            || self.rule.is_paused()
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
        if want.line.is_some() && !is_in_line {
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
        if let Some(since) = want.line.filter(|_| want.keeps) {
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
        let own = u32::try_from(self.slots.len(now)).unwrap_or(u32::MAX);
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
            // Unused slots before now have passed.
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
        if stands && want.line.is_none() {
            let patch = self.author(Some(want)).fence();
            return Some((Sent::Patch { slots: 0 }, Request::Patch(patch)));
        }
        let idle = self.held - self.used;
        if self.is_closing && idle > 0 {
            self.owed = idle;
            let patch = self.author(Some(&Want::default())).give_back(idle);
            return Some((Sent::Patch { slots: 0 }, Request::Patch(patch)));
        }
        let kept = match line.free {
            free if free * 2 >= line.cap => KEPT_OF_MANY,
            free if free > 0 => KEPT_OF_SOME,
            _ => KEPT_OF_NONE,
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

    /// A late duplicate of a refused patch would take permits that this runtime does not know of. A fence prevents it.
    fn forestall(&mut self, now: Time) -> Option<(Sent, Request)> {
        let refused_at = self.refused_at?;
        if self.waits_until(refused_at + FORESTALLED_AFTER, now) {
            return None;
        }
        if self.is_missing {
            let nothing = Reserved::Unused { floor: 0 };
            return Some((Sent::Create { slots: 0 }, self.create(0, nothing, 0)));
        }
        let fence = self.author(None).fence();
        Some((Sent::Patch { slots: 0 }, Request::Patch(fence)))
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
        let stored = || {
            let (line, _) = self.seen.as_ref()?;
            let entry = line.entry(&self.me)?;
            Some((entry.since, entry.wants))
        };
        let line = want.map_or_else(stored, |want| {
            let since = want.line?;
            Some((micros(since), 1))
        });
        Author {
            id: self.me.clone(),
            seq: self.seq,
            line: line.unwrap_or_default(),
        }
    }
}
