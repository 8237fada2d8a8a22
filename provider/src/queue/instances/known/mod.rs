//! The state of an instance that this process knows without holding its lock.

mod work;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cdb_model::Timestamp;
use duroxide::Event;

use super::attempt::{Arrived, Attempt, Presence};
use super::cache::{CachedInstance, started_orchestration};
use super::message::{Message, MessageKind, for_next_turn};
use super::pending::Pending;
use super::room::Full;
use super::turn::Left;
use super::unfit::{Readiness, Unfit};
use crate::stored::documents::WorkerItem;
use crate::timing::MIN_UNFIT_BACKOFF;

/// The queue type of instances.
#[derive(Debug)]
pub(crate) struct Instances;

/// The known state of an instance. All of it is a hint; the lock verifies it.
#[derive(Debug, Default)]
pub(crate) struct KnownInstance {
    pending: Vec<Pending>,
    pending_bytes: usize,
    /// Whether the store may have messages that came before pending ones. The next attempt reads them:
    /// otherwise an event would be received before an earlier one.
    lacks_messages: bool,
    /// The time until which all due messages are known, if there is such a time: a read has found all,
    /// and none was forgotten.
    complete_until: Option<Timestamp>,
    /// The times from which on the partition must be searched for messages. A search does not find
    /// what is due later.
    search_at: BTreeSet<Instant>,
    /// Counts search requests, so that a request during an attempt is not cleared with the
    /// attempt's result.
    searches: u64,
    /// The newest execution, if it is known to be later than the first.
    pub(crate) execution: Option<u64>,
    pub(crate) presence: Presence,
    pub(crate) cached: Option<Arc<CachedInstance>>,
    /// The history at the begin of its running turn in this process.
    pub(crate) history: Option<Arc<Vec<Event>>>,
    unfit: Option<Unfit>,
    full: Option<Full>,
    /// The newest activities that turns of this process have cancelled, by execution and number. Until their
    /// deletion is delivered they may end, but a turn with such a completion could not be committed.
    cancelled: BTreeSet<(u64, u64)>,
}

/// The most cancelled activities of an instance that are remembered.
const MAX_CANCELLED: usize = 1_024;

impl KnownInstance {
    /// Notes a message. Replaces a known version that was seen earlier.
    pub(crate) fn note(&mut self, message: Message, due: Instant, answered_at: Option<Instant>) {
        self.note_beside(self.pending.len(), message, due, answered_at);
    }

    /// Notes a message that only the first `others` may be versions of.
    fn note_beside(
        &mut self,
        others: usize,
        message: Message,
        due: Instant,
        answered_at: Option<Instant>,
    ) {
        let mut pending = self.pending[..others].iter_mut();
        if let Some(known) = pending.find(|known| known.message.id() == message.id()) {
            if message.seen_at >= known.message.seen_at {
                self.pending_bytes -= known.message.bytes();
                self.pending_bytes += message.bytes();
                let answered_at = answered_at.or(known.answered_at);
                *known = Pending {
                    message,
                    due,
                    answered_at,
                };
            }
            return;
        }
        self.pending_bytes += message.bytes();
        // Most instances have one message; a vector would reserve room for four.
        self.pending
            .reserve_exact(usize::from(self.pending.is_empty()));
        self.pending.push(Pending {
            message,
            due,
            answered_at,
        });
    }

    /// Requests a search of the partition from a time on.
    pub(crate) fn search(&mut self, at: Instant) {
        self.searches += 1;
        self.search_at.insert(at);
    }

    /// Forgets all messages, because they may have changed.
    pub(crate) fn forget_messages(&mut self) {
        self.pending.clear();
        self.pending_bytes = 0;
        self.lacks_messages = true;
        self.complete_until = None;
    }

    /// Notes the messages that have come since `complete_until`, if the cached instance still has this
    /// version. Otherwise the next attempt reads it.
    pub(crate) fn arrived(&mut self, arrived: Option<Arrived>, now: Instant) {
        let cached = self.cached.as_ref().map(|cached| &cached.instance.etag);
        let arrived = arrived.filter(|arrived| cached == Some(&arrived.version));
        let Some(arrived) = arrived else {
            self.cached = None;
            self.lacks_messages = true;
            return;
        };
        self.complete_until = Some(arrived.until);
        for message in arrived.messages {
            self.note(message, now, None);
        }
    }

    /// Notes the messages that a turn takes and those that it leaves, as far as they were found.
    pub(crate) fn taken(&mut self, taken: &[Message], left: Left, now: Instant) {
        self.remove_messages(taken);
        match left {
            Left::AsKnown => {}
            Left::Found {
                messages,
                complete_until,
                at,
            } => {
                self.lacks_messages = complete_until.is_none();
                self.complete_until = complete_until;
                self.forget_before(at);
                // Thousands may be left, and each is found once.
                let others = self.pending.len();
                for message in messages {
                    self.note_beside(others, message, now, None);
                }
                if self.lacks_messages && self.full.is_none() {
                    self.search(now);
                }
            }
        }
    }

    /// Forgets the messages that a turn has taken.
    pub(crate) fn remove_messages(&mut self, messages: &[Message]) {
        self.retain(|pending| {
            let id = pending.message.id();
            messages.iter().all(|message| message.id() != id)
        });
    }

    /// Forgets the messages that a read of the partition, which was sent at a time, would have found.
    fn forget_before(&mut self, read_at: tokio::time::Instant) {
        self.retain(|pending| pending.message.seen_at > read_at || !pending.is_found_by(read_at));
    }

    /// Clears what a finished attempt has handled. Keeps what arrived since.
    pub(crate) fn attempt_ended(&mut self, attempt: &Attempt) {
        self.forget_before(tokio::time::Instant::from_std(attempt.at));
        self.forget_holder();
        self.full = None;
        self.complete_until = None;
        if self.searches == attempt.searches {
            self.search_at.retain(|at| *at > attempt.at);
        }
    }

    /// Notes that all due messages are events of these queues, for which the execution has no room until a
    /// turn is committed. Another runtime may commit it, so the instance is read again after a pause,
    /// which doubles. `left` has the events, if a load has found them.
    pub(crate) fn mark_full(&mut self, attempt: &Attempt, queues: BTreeSet<String>, left: Left) {
        let full = Full::after(self.full.take(), queues, attempt.at);
        if matches!(left, Left::Found { .. }) {
            self.attempt_ended(attempt);
        }
        self.full = Some(full);
        self.taken(&[], left, attempt.at);
    }

    /// Notes a committed turn. There may be room now.
    pub(crate) fn committed(&mut self) {
        self.clear_unfit();
        self.history = None;
        self.full = None;
    }

    /// Returns whether another runtime had locked the instance when it was read last.
    pub(crate) fn is_locked_elsewhere(&self) -> bool {
        matches!(self.presence, Presence::Locked { .. })
    }

    /// Notes that no other runtime is known to have locked the instance.
    pub(crate) fn forget_holder(&mut self) {
        if self.is_locked_elsewhere() {
            self.presence = Presence::Exists;
        }
    }

    /// Returns the messages that the next turn may take: those that are due at `now` and were seen
    /// after `read_at`, or that a read at that time does not find. The latter may be consumed, which
    /// the commit finds out; a later message must not pass them.
    fn due_messages(&self, now: Instant, read_at: Option<tokio::time::Instant>) -> Vec<Message> {
        let due = self.pending.iter().filter(|pending| {
            let is_fresh = read_at
                .is_none_or(|read| pending.message.seen_at >= read || !pending.is_found_by(read));
            pending.due <= now && is_fresh
        });
        for_next_turn(due.map(|pending| &pending.message))
    }

    /// Returns the messages that a locked turn may take beside its own: none if the store may have others
    /// before them.
    pub(crate) fn late_messages(
        &self,
        now: Instant,
        read_at: Option<tokio::time::Instant>,
    ) -> Vec<Message> {
        if self.lacks_some(now) {
            return Vec::new();
        }
        self.due_messages(now, read_at)
    }

    /// Returns whether the store may have messages, due at `now`, that are not known and may come before
    /// known ones.
    fn lacks_some(&self, now: Instant) -> bool {
        self.lacks_messages || self.search_at.first().is_some_and(|at| *at <= now)
    }

    /// Returns whether messages are due at `now`, stale ones included.
    fn has_due(&self, now: Instant) -> bool {
        self.pending.iter().any(|pending| pending.due <= now)
    }

    /// Returns the next backoff, which doubles each time.
    pub(crate) fn next_backoff(&self) -> Duration {
        self.unfit.map_or(MIN_UNFIT_BACKOFF, Unfit::next_backoff)
    }

    /// Notes that the instance cannot be processed, considering messages due until `newest`.
    pub(crate) fn mark_unfit(&mut self, newest: Timestamp, pinned: Option<u64>) {
        self.lacks_messages = true;
        self.unfit = Some(Unfit {
            newest,
            backoff: self.next_backoff(),
            pinned,
            awaited_tried: self.unfit.is_some_and(|unfit| unfit.awaited_tried),
            for_other_code: false,
        });
    }

    /// Notes that the code of this process cannot execute the turn with these messages.
    pub(crate) fn mark_for_other_code(&mut self, newest: Timestamp) {
        let is_again = self.is_for_other_code();
        self.mark_unfit(newest, None);
        self.unfit = self.unfit.map(|unfit| Unfit {
            for_other_code: true,
            awaited_tried: is_again && unfit.awaited_tried,
            ..unfit
        });
    }

    pub(crate) fn is_for_other_code(&self) -> bool {
        self.unfit.is_some_and(|unfit| unfit.for_other_code)
    }

    pub(crate) fn is_unfit(&self) -> bool {
        self.unfit.is_some()
    }

    /// Returns whether the instance is in backoff, and a message of this kind may end the reason.
    pub(crate) fn waits_for(&self, kind: MessageKind) -> bool {
        self.unfit.is_some_and(|unfit| unfit.waits_for(kind))
    }

    /// Returns whether the instance leaves a polled message in the store for now, because it waits for
    /// other code until the end of a backoff.
    pub(crate) fn leaves_stored(
        &self,
        visible_at: Timestamp,
        kind: MessageKind,
        is_backed_off: bool,
    ) -> bool {
        let unfit = self.unfit.filter(|_| is_backed_off);
        unfit.is_some_and(|unfit| unfit.leaves_stored(visible_at, kind))
    }

    /// Returns the orchestration of an instance that can take a completion next: it is cached, or its turn
    /// is running here.
    pub(crate) fn takes_completions(&self) -> Option<&str> {
        if self.is_unfit() || self.is_locked_elsewhere() || self.full.is_some() {
            return None;
        }
        match &self.cached {
            Some(cached) => cached.open_orchestration(),
            None => started_orchestration(self.history.as_ref()?),
        }
    }

    /// Notes the activities that a committed turn has cancelled.
    pub(crate) fn cancelled(&mut self, activities: impl Iterator<Item = (u64, u64)>) {
        self.cancelled.extend(activities);
        while self.cancelled.len() > MAX_CANCELLED {
            self.cancelled.pop_first();
        }
    }

    /// Returns whether a turn of this process has cancelled an activity.
    pub(super) fn has_cancelled(&self, activity: &WorkerItem) -> bool {
        let id = (activity.execution_id, activity.activity_id);
        self.cancelled.contains(&id)
    }

    /// Leaves completions that are not stored to their acknowledgements.
    pub(crate) fn give_up_unstored(&mut self, is_given_up: impl Fn(&Message) -> bool) {
        self.retain(|pending| pending.message.is_stored() || !is_given_up(&pending.message));
    }

    /// Returns whether the execution has no room for events of this queue.
    pub(crate) fn has_no_room(&self, queue: Option<&str>) -> bool {
        let full = self.full.as_ref();
        full.is_some_and(|full| queue.is_some_and(|queue| full.concerns(queue)))
    }

    /// Ends the backoff, because the missing document may have arrived.
    pub(crate) fn clear_unfit(&mut self) {
        self.unfit = None;
    }

    /// Classifies a polled message. One newer than those already considered triggers a retry. So does
    /// a start, once: it may be delivered late, and is due since the commit that sent it.
    pub(crate) fn classify(
        &mut self,
        visible_at: Timestamp,
        kind: MessageKind,
        is_backed_off: bool,
    ) -> Readiness {
        let unfit = self.unfit.as_mut().filter(|_| is_backed_off);
        unfit.map_or(Readiness::Ready, |unfit| unfit.classify(visible_at, kind))
    }

    fn retain(&mut self, keep: impl Fn(&Pending) -> bool) {
        self.pending.retain(keep);
        let pending = self.pending.iter();
        self.pending_bytes = pending.map(|pending| pending.message.bytes()).sum();
    }
}

#[cfg(test)]
mod tests {
    use cdb_model::ETag;
    use duroxide::providers::{DispatcherCapabilityFilter, WorkItem};

    use super::MessageKind::{Cancellation, Other, Start};
    use super::*;
    use crate::queue::local_queue::{Offer, Work as _};
    use crate::stored::documents::OrchestratorItem;

    const NOW: Timestamp = Timestamp::from_secs(1000);

    #[test]
    fn the_backoff_of_an_unfit_instance_doubles_up_to_a_limit() {
        let mut known = KnownInstance::default();
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert_eq!(known.next_backoff(), Duration::from_secs(seconds));
            known.mark_unfit(NOW, None);
            assert_eq!(known.classify(NOW, Other, true), Readiness::Backoff);
        }
    }

    #[test]
    fn a_start_that_is_delivered_late_triggers_one_retry_of_an_unfit_instance() {
        let mut known = KnownInstance::default();
        known.mark_unfit(NOW, None);
        let committed = NOW - Duration::from_secs(5);
        assert_eq!(known.classify(committed, Start, true), Readiness::Ready);
        known.mark_unfit(NOW, None);
        assert_eq!(known.classify(committed, Start, true), Readiness::Backoff);
    }

    #[test]
    fn a_newer_message_triggers_a_retry_of_an_unfit_instance() {
        let mut known = KnownInstance::default();
        known.mark_unfit(NOW, None);
        let later = NOW + Duration::from_millis(1);
        assert_eq!(known.classify(later, Other, true), Readiness::Ready);
        assert_eq!(known.classify(later, Other, true), Readiness::Backoff);
        known.clear_unfit();
        assert_eq!(known.classify(later, Other, true), Readiness::Ready);
    }

    #[test]
    fn only_a_cancellation_or_a_new_start_triggers_a_retry_of_an_instance_for_other_code() {
        let mut known = KnownInstance::default();
        known.mark_for_other_code(NOW);
        let later = NOW + Duration::from_millis(1);
        for (at, kind, is_left) in [
            (later, Other, true),
            (NOW, Start, true),
            (later, Start, false),
            (NOW, Cancellation, false),
        ] {
            assert_eq!(known.leaves_stored(at, kind, true), is_left, "{kind:?}");
        }
        assert_eq!(known.classify(later, Other, true), Readiness::Backoff);
        assert_eq!(known.classify(NOW, Start, true), Readiness::Backoff);
        assert_eq!(known.classify(later, Start, true), Readiness::Ready);
        assert_eq!(known.classify(NOW, Cancellation, true), Readiness::Ready);
        assert_eq!(known.classify(NOW, Cancellation, true), Readiness::Backoff);
        assert!(known.leaves_stored(NOW, Cancellation, true));
        assert!(!known.leaves_stored(NOW, Cancellation, false));
        assert_eq!(known.classify(later, Other, false), Readiness::Ready);
    }

    #[test]
    fn an_instance_that_needs_another_version_is_offered_to_dispatchers_that_support_it() {
        let mut known = KnownInstance::default();
        known.mark_unfit(NOW, Some(1_032));
        assert_eq!(known.classify(NOW, Other, true), Readiness::NotNow);
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

    /// An event of a queue.
    fn event(number: u32, seen_at: tokio::time::Instant) -> Message {
        let document = OrchestratorItem {
            instance_id: "i".to_owned(),
            cause: number.to_string(),
            visible_at: NOW + Duration::from_millis(number.into()),
            ..OrchestratorItem::default()
        };
        let item = WorkItem::QueueMessage {
            instance: "i".to_owned(),
            name: "q".to_owned(),
            data: String::new(),
        };
        Message::written(document, item, ETag::new("1"), seen_at).unwrap()
    }

    /// An instance without room for its events, and the time of the load that has found them.
    fn full() -> (KnownInstance, Instant) {
        let now = tokio::time::Instant::now();
        let mut known = KnownInstance::default();
        let attempt = Instances::attempt(&known, now.into_std());
        let left = Left::Found {
            messages: vec![event(1, now), event(2, now)],
            complete_until: Some(NOW),
            at: now,
        };
        known.mark_full(&attempt, ["q".to_owned()].into(), left);
        (known, now.into_std())
    }

    #[test]
    fn what_a_load_has_found_of_a_full_execution_is_not_searched_again() {
        let (known, now) = full();
        let until = now + MIN_UNFIT_BACKOFF;
        assert_eq!(Instances::due(&known), Some(until));
        let attempt = Instances::attempt(&known, until);
        assert_eq!((attempt.search, attempt.unread_since), (false, Some(NOW)));
        assert_eq!(attempt.messages.len(), 2);
    }

    #[test]
    fn a_full_execution_is_searched_when_some_of_its_events_are_forgotten() {
        let forget: [fn(&mut KnownInstance, Instant); 3] = [
            |known, _| Instances::forget_polled(known),
            |known, now| drop(Instances::evict_pending(known, now)),
            |known, now| known.arrived(None, now),
        ];
        for (case, forget) in forget.into_iter().enumerate() {
            let (mut known, now) = full();
            forget(&mut known, now);
            // Not at once, or a full memory would be filled again and again.
            assert_eq!(Instances::due(&known), Some(now + MIN_UNFIT_BACKOFF));
            assert!(Instances::attempt(&known, now).search, "{case}");
        }
    }

    #[test]
    fn what_was_evicted_is_searched_for_when_it_is_due() {
        let seen = tokio::time::Instant::now();
        let now = seen.into_std();
        let due = now + Duration::from_millis(50);
        let mut known = KnownInstance::default();
        known.note(event(1, seen), due, None);
        drop(Instances::evict_pending(&mut known, now));
        assert_eq!(Instances::due(&known), Some(due));
        assert!(Instances::attempt(&known, due).search);
    }

    #[test]
    fn an_incomplete_load_is_followed_by_another_at_once() {
        let now = tokio::time::Instant::now();
        let mut known = KnownInstance::default();
        let left = Left::Found {
            messages: Vec::new(),
            complete_until: None,
            at: now,
        };
        known.taken(&[], left, now.into_std());
        assert_eq!(Instances::due(&known), Some(now.into_std()));
        assert!(Instances::attempt(&known, now.into_std()).search);
    }

    /// An earlier message may be in the store: its write had no answer.
    #[test]
    fn a_locked_turn_takes_no_late_message_while_a_search_is_due() {
        let seen = tokio::time::Instant::now();
        let now = seen.into_std();
        let mut known = KnownInstance::default();
        known.note(event(1, seen), now, Some(now));
        assert_eq!(known.late_messages(now, None).len(), 1);
        known.search(now);
        assert!(known.late_messages(now, None).is_empty());
    }

    #[test]
    fn a_message_that_was_not_due_at_the_read_is_not_passed_by_a_later_one() {
        let read_at = tokio::time::Instant::now();
        let ms = Duration::from_millis;
        let mut known = KnownInstance::default();
        let mut note = |due_after: u64, seen_before: u64, answered_at: Instant| {
            let document = OrchestratorItem {
                instance_id: "i".to_owned(),
                cause: due_after.to_string(),
                visible_at: NOW + ms(due_after),
                ..OrchestratorItem::default()
            };
            let seen_at = read_at - ms(seen_before);
            let item = WorkItem::CancelInstance {
                instance: "i".to_owned(),
                reason: String::new(),
            };
            let message = Message::written(document, item, ETag::new("1"), seen_at).unwrap();
            let due = (read_at + ms(due_after)).into_std();
            known.note(message, due, Some(answered_at));
        };
        let read = read_at.into_std();
        note(54, 900, (read_at - ms(600)).into_std());
        note(56, 300, read + ms(100));
        let due = known.due_messages((read_at + ms(60)).into_std(), Some(read_at));
        let due: Vec<_> = due
            .iter()
            .map(|due| due.stored.document.visible_at)
            .collect();
        assert_eq!(due, [NOW + ms(54), NOW + ms(56)]);
    }

    /// It may have arrived after the read. A later message must not pass it.
    #[test]
    fn an_event_whose_write_overlaps_a_load_is_taken_with_later_ones() {
        let sent = tokio::time::Instant::now();
        let ms = |millis| sent + Duration::from_millis(millis);
        let mut known = KnownInstance::default();
        let mut note = |number, seen: u64, answered: u64| {
            let (seen, answered) = (ms(seen), ms(answered).into_std());
            known.note(event(number, seen), seen.into_std(), Some(answered));
        };
        note(1, 0, 100);
        note(2, 100, 150);
        let due = known.due_messages(ms(200).into_std(), Some(ms(50)));
        let due: Vec<_> = due.iter().map(|due| &*due.stored.document.cause).collect();
        assert_eq!(due, ["1", "2"]);
    }

    #[test]
    fn a_search_for_a_message_that_is_due_later_outlives_an_earlier_one() {
        let now = Instant::now();
        let later = now + Duration::from_millis(50);
        let mut known = KnownInstance::default();
        known.search(now);
        known.search(later);
        let attempt = Instances::attempt(&known, now);
        known.attempt_ended(&attempt);
        assert_eq!(Instances::due(&known), Some(later));
        assert!(!known.lacks_some(now) && known.lacks_some(later));
    }

    #[test]
    fn a_search_requested_during_an_attempt_outlives_its_result() {
        let now = Instant::now();
        let mut known = KnownInstance::default();
        known.search(now);
        let attempt = Instances::attempt(&known, now);
        assert!(attempt.search);
        known.search(now);
        known.attempt_ended(&attempt);
        assert_eq!(Instances::due(&known), Some(now));
        let attempt = Instances::attempt(&known, now);
        known.attempt_ended(&attempt);
        assert_eq!(Instances::due(&known), None);
    }
}
