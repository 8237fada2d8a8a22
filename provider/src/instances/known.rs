//! What this process knows of an instance while it does not hold its lock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cdb_model::Timestamp;
use duroxide::Event;
use duroxide::providers::DispatcherCapabilityFilter;

use super::cache::CachedInstance;
use super::message::{Message, in_order};
use super::turn::{SharedTurn, Turn};
use super::version::supports;
use crate::local_queue::{Memory, Offer, Work};

/// How long an instance is left alone that cannot be worked on: at first, and at most.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The queue of instances that have messages.
#[derive(Debug)]
pub(crate) struct Instances;

/// What is known of an instance. All of it are hints, and checked by the lock.
#[derive(Debug, Default)]
pub(crate) struct KnownInstance {
    pending: Vec<Pending>,
    pending_bytes: usize,
    /// From when on its partition is to be searched for messages.
    search_at: Option<Instant>,
    /// Counts the requests for a search, so that one that comes during an attempt is not forgotten with its result.
    searches: u64,
    /// The newest execution, if it is known to be a later one than the first.
    pub(crate) execution: Option<u64>,
    /// It exists, although a message to start it was seen here.
    pub(crate) exists: bool,
    cached: Option<Arc<CachedInstance>>,
    /// The history that its turn in this process began with.
    pub(crate) history: Option<Arc<Vec<Event>>>,
    unfit: Option<Unfit>,
}

/// A message that waits.
#[derive(Debug)]
struct Pending {
    message: Message,
    due: Instant,
    /// Known from a poll, as other runtimes know it too.
    is_polled: bool,
}

/// Why the instance cannot be worked on here: its start has not come, it needs another version, or its documents cannot
/// be handled.
#[derive(Clone, Copy, Debug)]
struct Unfit {
    /// The newest due time among the messages that it was judged by.
    newest: Timestamp,
    pause: Duration,
    /// The version it is pinned to, when that is the only reason: a dispatcher that supports it may take it.
    pinned: Option<u64>,
}

/// What a polled message means to this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// Something to do.
    Work,
    /// Something to do for a dispatcher that supports its version.
    WorkForSome,
    /// Its instance cannot be worked on for the moment.
    Nothing,
}

/// What a dispatcher takes along to try an instance.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// The instance as its last commit here left it.
    pub(crate) cached: Option<Arc<CachedInstance>>,
    /// Messages that are due, in order.
    pub(crate) messages: Vec<Message>,
    /// Whether its partition must be searched, whatever is known.
    pub(crate) search: bool,
    pub(crate) execution: Option<u64>,
    pub(crate) exists: bool,
    /// Whether other runtimes know of all of it too.
    pub(crate) is_polled: bool,
    at: Instant,
    searches: u64,
}

impl KnownInstance {
    /// Notes a message. One that is known already is replaced if it was seen later.
    pub(crate) fn note(&mut self, message: Message, due: Instant, is_polled: bool) {
        let same = self.pending.iter_mut();
        let mut same = same.filter(|known| known.message.id() == message.id());
        if let Some(known) = same.next() {
            if message.seen_at >= known.message.seen_at {
                self.pending_bytes -= known.message.bytes();
                self.pending_bytes += message.bytes();
                let is_polled = known.is_polled && is_polled;
                *known = Pending {
                    message,
                    due,
                    is_polled,
                };
            }
            return;
        }
        self.pending_bytes += message.bytes();
        // Most instances have one message; a vector would make room for four.
        self.pending
            .reserve_exact(usize::from(self.pending.is_empty()));
        self.pending.push(Pending {
            message,
            due,
            is_polled,
        });
    }

    /// Has its partition searched from a time on.
    pub(crate) fn search(&mut self, at: Instant) {
        self.searches += 1;
        self.search_at = Some(self.search_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Forgets its messages: they may have changed.
    pub(crate) fn forget_messages(&mut self) {
        self.pending.clear();
        self.pending_bytes = 0;
    }

    /// Forgets these messages: a turn has taken them.
    pub(crate) fn take(&mut self, messages: &[Message]) {
        self.retain(|pending| {
            let id = pending.message.id();
            messages.iter().all(|message| message.id() != id)
        });
    }

    /// An attempt has come to a result: what it knew is dealt with, what came since is not.
    pub(crate) fn judged(&mut self, attempt: &Attempt) {
        let before = tokio::time::Instant::from_std(attempt.at);
        self.retain(|pending| pending.due > attempt.at || pending.message.seen_at > before);
        if self.searches == attempt.searches {
            self.search_at = None;
        }
    }

    /// The messages that are due at `now` and were seen after `read_at`, in order.
    pub(crate) fn due_messages(
        &self,
        now: Instant,
        read_at: Option<tokio::time::Instant>,
    ) -> Vec<Message> {
        let due = self
            .pending
            .iter()
            .filter(|pending| pending.due <= now && Some(pending.message.seen_at) >= read_at);
        let mut due: Vec<Message> = due.map(|pending| pending.message.clone()).collect();
        in_order(&mut due);
        due
    }

    /// Whether messages are known that are due at `now`, the ones that are too old to count included.
    fn has_due(&self, now: Instant) -> bool {
        self.pending.iter().any(|pending| pending.due <= now)
    }

    pub(crate) fn cached(&self) -> Option<&Arc<CachedInstance>> {
        self.cached.as_ref()
    }

    pub(crate) fn set_cached(&mut self, cached: Option<Arc<CachedInstance>>) {
        self.cached = cached;
    }

    /// How long it is left alone if it cannot be worked on now: longer each time.
    pub(crate) fn next_pause(&self) -> Duration {
        self.unfit
            .map_or(FIRST_PAUSE, |unfit| (unfit.pause * 2).min(LONGEST_PAUSE))
    }

    /// Notes that it cannot be worked on, for all that is known from messages due until `newest`.
    pub(crate) fn judge_unfit(&mut self, newest: Timestamp, pinned: Option<u64>) {
        self.unfit = Some(Unfit {
            newest,
            pause: self.next_pause(),
            pinned,
        });
    }

    pub(crate) fn is_unfit(&self) -> bool {
        self.unfit.is_some()
    }

    /// It may have got what it waited for.
    pub(crate) fn forgive(&mut self) {
        self.unfit = None;
    }

    /// What a polled message means that is due at `visible_at`. One that is newer than those the instance was judged by
    /// makes it worth another attempt.
    pub(crate) fn outlook(&mut self, visible_at: Timestamp, is_backed_off: bool) -> Outlook {
        let Some(unfit) = self.unfit.as_mut().filter(|_| is_backed_off) else {
            return Outlook::Work;
        };
        if visible_at > unfit.newest {
            unfit.newest = visible_at;
            return Outlook::Work;
        }
        match unfit.pinned {
            Some(_) => Outlook::WorkForSome,
            None => Outlook::Nothing,
        }
    }

    fn retain(&mut self, keep: impl Fn(&Pending) -> bool) {
        self.pending.retain(keep);
        let pending = self.pending.iter();
        self.pending_bytes = pending.map(|pending| pending.message.bytes()).sum();
    }
}

impl Work for Instances {
    type Key = String;
    type Known = KnownInstance;
    type Attempt = Attempt;
    type Lock = Turn;
    type Running = SharedTurn;
    type Ask = Option<DispatcherCapabilityFilter>;

    fn due(known: &KnownInstance) -> Option<Instant> {
        let pending = known.pending.iter().map(|pending| pending.due);
        pending.chain(known.search_at).min()
    }

    fn accepts(filter: &Self::Ask, offer: Offer<'_, Self>) -> bool {
        let runs_nothing =
            |filter: &DispatcherCapabilityFilter| filter.supported_duroxide_versions.is_empty();
        let pinned = match offer {
            // Without a pinned version it fits every dispatcher that supports anything at all.
            Offer::Free(_) => return !filter.as_ref().is_some_and(runs_nothing),
            Offer::Backoff(known) => known.unfit.and_then(|unfit| unfit.pinned),
            Offer::Locked(turn) => turn.instance.document.pinned_duroxide_version_packed,
        };
        pinned.is_none_or(|pinned| supports(filter.as_ref(), pinned))
    }

    fn is_open_in_backoff(known: &KnownInstance) -> bool {
        known.unfit.is_some_and(|unfit| unfit.pinned.is_some())
    }

    fn attempt(known: &KnownInstance, now: Instant) -> Attempt {
        let read_at = known
            .cached
            .as_ref()
            .and_then(|cached| cached.history.read_at);
        let messages = known.due_messages(now, read_at);
        // Messages that were seen before the history was read may be gone.
        let is_stale = messages.is_empty() && known.has_due(now);
        Attempt {
            cached: known.cached.clone(),
            search: is_stale || known.search_at.is_some_and(|at| at <= now),
            messages,
            execution: known.execution,
            exists: known.exists,
            is_polled: known.search_at.is_none()
                && known.pending.iter().all(|pending| pending.is_polled),
            at: now,
            searches: known.searches,
        }
    }

    fn expire(known: &mut KnownInstance, now: Instant) {
        known.forget_messages();
        known.cached = None;
        known.history = None;
        known.search(now);
    }

    fn forget_polled(known: &mut KnownInstance) {
        known.retain(|pending| !pending.is_polled);
    }

    fn is_forgettable(known: &KnownInstance) -> bool {
        known.pending.is_empty()
            && known.search_at.is_none()
            && known.execution.is_none()
            && !known.exists
            && known.cached.is_none()
            && known.history.is_none()
            && known.unfit.is_none()
    }

    fn memory(known: &KnownInstance) -> Memory {
        Memory {
            pending: known.pending_bytes,
            cached: known.cached.as_ref().map_or(0, |cached| cached.bytes()),
        }
    }

    fn evict_cache(known: &mut KnownInstance) -> KnownInstance {
        KnownInstance {
            cached: known.cached.take(),
            ..KnownInstance::default()
        }
    }

    fn evict_pending(known: &mut KnownInstance, now: Instant) -> KnownInstance {
        let due = known.pending.iter().map(|pending| pending.due).min();
        if let Some(due) = due {
            known.search(due.max(now));
        }
        let pending = std::mem::take(&mut known.pending);
        known.pending_bytes = 0;
        KnownInstance {
            pending,
            ..KnownInstance::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1000);

    #[test]
    fn an_instance_that_cannot_be_worked_on_is_left_alone_longer_each_time() {
        let mut known = KnownInstance::default();
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert_eq!(known.next_pause(), Duration::from_secs(seconds));
            known.judge_unfit(NOW, None);
            assert_eq!(known.outlook(NOW, true), Outlook::Nothing);
        }
    }

    #[test]
    fn a_newer_message_makes_an_unfit_instance_worth_another_attempt() {
        let mut known = KnownInstance::default();
        known.judge_unfit(NOW, None);
        let later = NOW + Duration::from_millis(1);
        assert_eq!(known.outlook(later, true), Outlook::Work);
        assert_eq!(known.outlook(later, true), Outlook::Nothing);
        known.forgive();
        assert_eq!(known.outlook(later, true), Outlook::Work);
    }

    #[test]
    fn an_instance_that_needs_another_version_is_offered_to_dispatchers_that_support_it() {
        let mut known = KnownInstance::default();
        known.judge_unfit(NOW, Some(1_032));
        assert_eq!(known.outlook(NOW, true), Outlook::WorkForSome);
        let supports = |version: &str| {
            let version = semver::Version::parse(version).unwrap();
            let range = duroxide::providers::SemverRange::new(version.clone(), version);
            let filter = DispatcherCapabilityFilter {
                supported_duroxide_versions: vec![range],
            };
            Instances::accepts(&Some(filter), Offer::Backoff(&known))
        };
        assert!(supports("0.1.32") && !supports("0.1.31"));
    }

    #[test]
    fn a_search_that_is_asked_for_during_an_attempt_outlives_its_result() {
        let now = Instant::now();
        let mut known = KnownInstance::default();
        known.search(now);
        let attempt = Instances::attempt(&known, now);
        assert!(attempt.search);
        known.search(now);
        known.judged(&attempt);
        assert_eq!(Instances::due(&known), Some(now));
        let attempt = Instances::attempt(&known, now);
        known.judged(&attempt);
        assert_eq!(Instances::due(&known), None);
    }
}
