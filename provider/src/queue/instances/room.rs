//! The room of an execution for queued events. duroxide carries 100 events that an execution has not
//! taken to the next one, and drops the others (0.1.32, `runtime/limits.rs`,
//! `MAX_CARRY_FORWARD_EVENTS`). It also fails a turn that takes 100 (`runtime/replay_engine.rs`,
//! `MAX_QUIESCENCE_ITERATIONS`). So an execution gets fewer, and the others stay in the store.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use duroxide::providers::WorkItem;
use duroxide::{Event, EventKind};

use super::message::{Content, Message};
use crate::timing::{MAX_UNFIT_BACKOFF, MIN_UNFIT_BACKOFF};

/// The most queued events that wait in an execution for the orchestration to take them. An event for
/// which it waits is not counted. A subscription that is never awaited hides one, so the rest up to
/// 100 is for those.
const MAX_UNTAKEN: i64 = 64;

/// The queued events that an execution has not taken.
#[derive(Debug, Default)]
pub(crate) struct Room<'a> {
    /// The events without a subscription, by queue. Negative: the subscriptions without an event.
    queues: HashMap<&'a str, i64>,
    /// The events without a subscription.
    untaken: i64,
}

impl<'a> Room<'a> {
    /// Returns the room after the events of an execution.
    pub(crate) fn of(history: impl IntoIterator<Item = &'a Event>) -> Self {
        let (mut room, mut subscriptions) = (Self::default(), HashMap::new());
        for event in history {
            match &event.kind {
                EventKind::QueueEventDelivered { name, .. } => room.add(name, 1),
                EventKind::QueueSubscribed { name } => {
                    subscriptions.insert(event.event_id(), &**name);
                    room.add(name, -1);
                }
                EventKind::QueueSubscriptionCancelled { .. } => {
                    let ended = event
                        .source_event_id
                        .and_then(|id| subscriptions.remove(&id));
                    if let Some(queue) = ended {
                        room.add(queue, 1);
                    }
                }
                _ => {}
            }
        }
        room
    }

    /// Returns the room before a turn that takes none of the queued events among its messages.
    pub(crate) fn before(history: &'a [Event], messages: &'a [Message]) -> Self {
        let mut room = Self::default();
        let start = messages.iter().find(|message| message.is_start());
        match start.map(|start| &start.content) {
            None => return Self::of(history),
            Some(Content::Whole(WorkItem::ContinueAsNew {
                carry_forward_events,
                ..
            })) => {
                for (queue, _) in carry_forward_events {
                    room.add(queue, 1);
                }
            }
            // The number of carried events is known when the first turn has read them.
            Some(Content::Header(WorkItem::ContinueAsNew { .. })) => room.untaken = MAX_UNTAKEN,
            Some(_) => {}
        }
        room
    }

    /// Returns the room after these queued events, too.
    pub(crate) fn after(history: &'a [Event], messages: &'a [Message]) -> Self {
        let mut room = Self::before(history, messages);
        for queue in messages.iter().filter_map(Message::queue) {
            room.add(queue, 1);
        }
        room
    }

    /// Returns the number of events without a subscription, if there is no room for more of them.
    pub(crate) fn full(&self) -> Option<u32> {
        let is_full = self.untaken >= MAX_UNTAKEN;
        is_full.then(|| self.untaken())
    }

    /// Returns the number of events without a subscription.
    pub(crate) fn untaken(&self) -> u32 {
        u32::try_from(self.untaken).unwrap_or(u32::MAX)
    }

    /// Takes up an event of a queue, if there is room for it.
    pub(crate) fn admits(&mut self, queue: &'a str) -> bool {
        let is_awaited = self.queues.get(queue).is_some_and(|events| *events < 0);
        let admits = is_awaited || self.untaken < MAX_UNTAKEN;
        if admits {
            self.add(queue, 1);
        }
        admits
    }

    /// Adds events to a queue, or subscriptions if the number is negative.
    fn add(&mut self, queue: &'a str, number: i64) {
        let events = self.queues.entry(queue).or_default();
        let before = (*events).max(0);
        *events += number;
        self.untaken += (*events).max(0) - before;
    }
}

/// Why an instance leaves queued events in the store: its execution has no room for them.
#[derive(Debug)]
pub(super) struct Full {
    /// The queues of these events. An event of another queue may be awaited.
    queues: BTreeSet<String>,
    backoff: Duration,
    /// The end of the backoff. The instance is read again then: another runtime may have made room.
    pub(super) until: Instant,
}

impl Full {
    /// Notes the queues of the events that are left. The backoff doubles when it ends and the execution is
    /// still full.
    pub(super) fn after(last: Option<Self>, queues: BTreeSet<String>, now: Instant) -> Self {
        let (backoff, until) = match last {
            Some(last) if last.until > now => (last.backoff, last.until),
            Some(last) => {
                let backoff = (last.backoff * 2).min(MAX_UNFIT_BACKOFF);
                (backoff, now + backoff)
            }
            None => (MIN_UNFIT_BACKOFF, now + MIN_UNFIT_BACKOFF),
        };
        Self {
            queues,
            backoff,
            until,
        }
    }

    /// Returns whether events of this queue are left.
    pub(super) fn concerns(&self, queue: &str) -> bool {
        self.queues.contains(queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: u64, source: Option<u64>, kind: EventKind) -> Event {
        Event::with_event_id(id, "i", 1, source, kind)
    }

    fn delivered(id: u64, name: &str) -> Event {
        let (name, data) = (name.to_owned(), String::new());
        event(id, None, EventKind::QueueEventDelivered { name, data })
    }

    fn subscribed(id: u64, name: &str) -> Event {
        let name = name.to_owned();
        event(id, None, EventKind::QueueSubscribed { name })
    }

    fn cancelled(id: u64, subscription: u64) -> Event {
        let reason = String::new();
        let kind = EventKind::QueueSubscriptionCancelled { reason };
        event(id, Some(subscription), kind)
    }

    fn admitted(history: &[Event], queue: &str) -> usize {
        let mut room = Room::before(history, &[]);
        (0..200).take_while(|_| room.admits(queue)).count()
    }

    #[test]
    fn the_backoff_of_a_full_execution_doubles_only_when_it_has_ended() {
        let now = Instant::now();
        let after = |last, now| Full::after(last, BTreeSet::new(), now);
        let first = after(None, now).until;
        assert_eq!(first, now + MIN_UNFIT_BACKOFF);
        let early = after(Some(after(None, now)), now);
        assert_eq!(early.until, first);
        assert_eq!(
            after(Some(early), first).until,
            first + MIN_UNFIT_BACKOFF * 2
        );
    }

    #[test]
    fn an_execution_gets_as_many_events_as_it_can_carry_and_those_for_which_it_waits() {
        assert_eq!(admitted(&[], "a"), 64);
        let full: Vec<Event> = (1..=64).map(|id| delivered(id, "a")).collect();
        assert_eq!(admitted(&full, "a"), 0);
        assert_eq!(admitted(&full, "b"), 0);
        // Another queue has two subscriptions, and one is cancelled.
        let waits = [subscribed(65, "b"), subscribed(66, "b"), cancelled(67, 65)];
        let waiting = [full.clone(), waits.to_vec()].concat();
        assert_eq!(admitted(&waiting, "a"), 0);
        assert_eq!(admitted(&waiting, "b"), 1);
        let taken = [full, (65..75).map(|id| subscribed(id, "a")).collect()].concat();
        assert_eq!(admitted(&taken, "a"), 10);
        assert_eq!(admitted(&taken, "b"), 10);
    }
}
