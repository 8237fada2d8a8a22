//! Instances that this process leaves alone for a while, and for how long.
//!
//! Somebody else holds them for the moment; or they cannot be worked on here: their start has not come, they need another
//! version, their documents cannot be handled. Those are left alone longer each time, so that any number of them costs
//! others nothing, and looked at again at once when a message comes that they were not judged by. All of it is memory of
//! one process and decides nothing: forgotten, they are looked at once more.

use std::collections::HashMap;
use std::time::Duration;

use cdb_model::Timestamp;

/// How many are remembered before the outdated ones are dropped; and when that does not help, all are.
const BEFORE_SWEEP: usize = 8192;
const MOST: usize = 4 * BEFORE_SWEEP;

/// How long one is left alone that cannot be worked on: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What a message that a poll has found is to this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// Something to do.
    Work,
    /// Something to do for a dispatcher that supports its version, if there is one here.
    WorkForSome,
    /// Its instance cannot be worked on, and is left alone for the moment.
    Nothing,
}

/// All avoided instances.
#[derive(Debug, Default)]
pub(super) struct Avoided {
    instances: HashMap<String, Entry>,
    /// With how many of them the outdated ones are dropped.
    sweep_at: usize,
}

#[derive(Debug)]
struct Entry {
    until: Timestamp,
    /// The version it is pinned to, when that is the only reason: a dispatcher that supports it may look.
    pinned: Option<u64>,
    /// That it cannot be worked on; nothing when somebody else holds it for the moment.
    unfit: Option<Unfit>,
}

#[derive(Clone, Copy, Debug)]
struct Unfit {
    /// Until when the messages were due that it was judged by.
    newest: Timestamp,
    pause: Duration,
}

impl Avoided {
    /// Whether a dispatcher that `supports` some versions is to leave the instance alone.
    pub(super) fn keeps_out(
        &self,
        instance_id: &str,
        now: Timestamp,
        supports: impl Fn(u64) -> bool,
    ) -> bool {
        let entry = self.instances.get(instance_id);
        entry.is_some_and(|entry| entry.until > now && !entry.pinned.is_some_and(supports))
    }

    /// Nobody looks at the instance before `until`.
    pub(super) fn avoid(&mut self, instance_id: &str, (now, until): (Timestamp, Timestamp)) {
        let entry = Entry {
            until,
            pinned: None,
            unfit: None,
        };
        self.insert(instance_id, now, entry);
    }

    /// Nobody looks at the instance for a while, longer each time, unless a message comes that is due later than
    /// `newest`, or somebody supports the version that it is `pinned` to. Returns for how long.
    pub(super) fn avoid_unfit(
        &mut self,
        instance_id: &str,
        now: Timestamp,
        newest: Timestamp,
        pinned: Option<u64>,
    ) -> Duration {
        let before = self.instances.get(instance_id);
        let pause = before
            .and_then(|entry| entry.unfit)
            .map_or(FIRST_PAUSE, |unfit| (unfit.pause * 2).min(LONGEST_PAUSE));
        let entry = Entry {
            until: now + pause,
            pinned,
            unfit: Some(Unfit { newest, pause }),
        };
        self.insert(instance_id, now, entry);
        pause
    }

    /// Whether the instance was looked at in vain before.
    pub(super) fn is_known(&self, instance_id: &str) -> bool {
        let entry = self.instances.get(instance_id);
        entry.is_some_and(|entry| entry.unfit.is_some())
    }

    /// What a message is that a poll has found. A later one than its instance was judged by makes that worth a look.
    pub(super) fn outlook(
        &mut self,
        instance_id: &str,
        visible_at: Timestamp,
        now: Timestamp,
    ) -> Outlook {
        let Some(entry) = self.instances.get_mut(instance_id) else {
            return Outlook::Work;
        };
        let Some(unfit) = entry.unfit.as_mut().filter(|_| entry.until > now) else {
            return Outlook::Work;
        };
        if visible_at > unfit.newest {
            unfit.newest = visible_at;
            entry.until = now;
            return Outlook::Work;
        }
        match entry.pinned {
            Some(_) => Outlook::WorkForSome,
            None => Outlook::Nothing,
        }
    }

    /// The instance may have got what it waited for.
    pub(super) fn welcome(&mut self, instance_id: &str) {
        let entry = self.instances.get(instance_id);
        if entry.is_some_and(|entry| entry.unfit.is_some()) {
            self.instances.remove(instance_id);
        }
    }

    fn insert(&mut self, instance_id: &str, now: Timestamp, entry: Entry) {
        let count = self.instances.len();
        if count >= self.sweep_at.max(BEFORE_SWEEP) {
            // How long an unfit one was left alone is remembered for as long again.
            self.instances.retain(|_, entry| {
                let memory = entry.unfit.map_or(Duration::ZERO, |unfit| unfit.pause);
                entry.until + memory > now
            });
            if count >= MOST && self.instances.len() > MOST / 2 {
                self.instances.clear();
            }
            // So that each takes a moment, however many there are.
            self.sweep_at = MOST.min(2 * self.instances.len());
        }
        self.instances.insert(instance_id.to_owned(), entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1000);

    #[test]
    fn one_that_cannot_be_worked_on_is_left_alone_longer_each_time() {
        let mut avoided = Avoided::default();
        let mut now = NOW;
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            let pause = avoided.avoid_unfit("i", now, NOW, None);
            assert_eq!(pause, Duration::from_secs(seconds));
            assert!(avoided.keeps_out("i", now, |_| true));
            assert_eq!(avoided.outlook("i", NOW, now), Outlook::Nothing);
            now = now + pause;
            assert!(!avoided.keeps_out("i", now, |_| true));
        }
    }

    #[test]
    fn a_later_message_makes_it_worth_a_look() {
        let mut avoided = Avoided::default();
        avoided.avoid_unfit("i", NOW, NOW, None);
        let later = NOW + Duration::from_millis(1);
        assert_eq!(avoided.outlook("i", later, later), Outlook::Work);
        assert!(!avoided.keeps_out("i", later, |_| true));
        // Judged by that one too, it is left alone again, for longer.
        let pause = avoided.avoid_unfit("i", later, later, None);
        assert_eq!(pause, Duration::from_secs(2));
        assert_eq!(avoided.outlook("i", later, later), Outlook::Nothing);
        avoided.welcome("i");
        assert_eq!(avoided.outlook("i", later, later), Outlook::Work);
    }

    #[test]
    fn one_that_needs_another_version_is_shown_to_who_supports_it() {
        let mut avoided = Avoided::default();
        avoided.avoid_unfit("i", NOW, NOW, Some(7));
        assert_eq!(avoided.outlook("i", NOW, NOW), Outlook::WorkForSome);
        assert!(avoided.keeps_out("i", NOW, |version| version == 8));
        assert!(!avoided.keeps_out("i", NOW, |version| version == 7));
    }

    #[test]
    fn no_more_are_remembered_than_fit() {
        let mut avoided = Avoided::default();
        for number in 0..2 * MOST {
            avoided.avoid_unfit(&number.to_string(), NOW, NOW, None);
        }
        assert!(avoided.instances.len() <= MOST);
    }
}
