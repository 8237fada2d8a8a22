//! How the local queue treats the known state of an instance.

use std::convert::Infallible;
use std::time::Instant;

use duroxide::providers::DispatcherCapabilityFilter;

use super::{Instances, KnownInstance};
use crate::queue::instances::attempt::{Attempt, Presence};
use crate::queue::instances::message::split_off_others;
use crate::queue::instances::pending::Pending;
use crate::queue::instances::turn::Turn;
use crate::queue::instances::version::{runs_nothing, supports};
use crate::queue::local_queue::{Memory, Offer, Work};
use crate::stored::documents::Labels;

/// The memory of a cancelled activity: two numbers in a tree that is half full.
const CANCELLED_BYTES: usize = 32;

impl Work for Instances {
    type Key = String;
    type Known = KnownInstance;
    type Attempt = Attempt;
    /// No batch locks an instance for its next turn.
    type Lock = Infallible;
    type Running = Turn;
    type Capability = Option<DispatcherCapabilityFilter>;

    const IS_SCATTERED: bool = true;

    fn due(known: &KnownInstance) -> Option<Instant> {
        let pending = known.pending.iter();
        let pending = pending.filter(|pending| !known.has_no_room(pending.message.queue()));
        let due = pending.map(|pending| pending.due);
        let full = known.full.as_ref().map(|full| full.until);
        due.chain(known.search_at.first().copied())
            .chain(full)
            .min()
    }

    fn accepts(filter: &Self::Capability, offer: Offer<'_, Self>) -> bool {
        let pinned = match offer {
            // Without a pinned version, any dispatcher that supports a version at all may take it.
            Offer::Free(_) => return !runs_nothing(filter.as_ref()),
            Offer::Backoff(known) => known.unfit.and_then(|unfit| unfit.pinned),
            Offer::Locked(never) => match *never {},
        };
        pinned.is_none_or(|pinned| supports(filter.as_ref(), pinned))
    }

    fn is_alike(filter: &Self::Capability, other: &Self::Capability) -> bool {
        runs_nothing(filter.as_ref()) == runs_nothing(other.as_ref())
    }

    /// The next turn of an instance needs no lock while its messages are reserved. New instances
    /// wait: a burst of starts would delay the turns of those that have begun.
    fn is_first(known: &KnownInstance) -> bool {
        let mut pending = known.pending.iter();
        known.cached.is_some() && pending.any(|pending| pending.message.stored.document.reserved)
    }

    /// Whoever can continue the instance, its next load may be slow and again in vain.
    fn is_retry(known: &KnownInstance) -> bool {
        known.is_unfit()
    }

    fn is_open_in_backoff(known: &KnownInstance) -> bool {
        known.unfit.is_some_and(|unfit| unfit.pinned.is_some())
    }

    fn attempt(known: &KnownInstance, now: Instant) -> Attempt {
        let read_at = known
            .cached
            .as_ref()
            .and_then(|cached| cached.history.read_at);
        let mut messages = known.due_messages(now, read_at);
        // Messages that were seen before the history was read may be consumed.
        let is_stale = messages.is_empty() && known.has_due(now);
        let full = known.full.as_ref();
        let unread_since = full.and(known.complete_until);
        let must_look = full.is_some_and(|full| full.until <= now) && unread_since.is_none();
        Attempt {
            cached: known.cached.clone(),
            search: is_stale || must_look || known.lacks_some(now),
            unread_since,
            others: split_off_others(&mut messages),
            messages,
            execution: known.execution,
            presence: known.presence,
            is_polled: known.search_at.is_empty()
                && known
                    .pending
                    .iter()
                    .all(|pending| pending.answered_at.is_none()),
            is_for_other_code: known.is_for_other_code(),
            at: now,
            searches: known.searches,
        }
    }

    fn expire(known: &mut KnownInstance, now: Instant) {
        known.forget_messages();
        known.cached = None;
        known.history = None;
        known.full = None;
        known.search(now);
    }

    fn forget_polled(known: &mut KnownInstance) {
        known.retain(|pending| pending.answered_at.is_some());
        known.complete_until = None;
        // No poll finds the events of a full execution again.
        known.lacks_messages |= known.full.is_some();
    }

    fn is_forgettable(known: &KnownInstance) -> bool {
        known.pending.is_empty()
            && known.search_at.is_empty()
            && known.execution.is_none()
            && known.presence == Presence::Unknown
            && known.cached.is_none()
            && known.history.is_none()
            && known.unfit.is_none()
    }

    fn memory(known: &KnownInstance) -> Memory {
        Memory {
            pending: known.pending_bytes,
            cached: known.cached.as_ref().map_or(0, |cached| cached.bytes())
                + known.cancelled.len() * CANCELLED_BYTES,
        }
    }

    /// Only whether an instance begins is limited, as far as this process knows.
    fn is_limitable(known: &KnownInstance) -> bool {
        let begins = |pending: &Pending| pending.message.begins_instance();
        known.cached.is_none()
            && known.presence == Presence::Unknown
            && known.pending.iter().any(begins)
    }

    /// The labels of the instance id are noted. The orchestration is known while the instance is cached, and of
    /// a start.
    fn labels(known: &KnownInstance, noted: Option<&Labels>) -> Option<Labels> {
        let cached = known.cached.as_ref();
        let name = cached.map(|cached| &*cached.instance.document.orchestration_name);
        let mut pending = known.pending.iter();
        let started = || pending.find_map(|pending| pending.message.orchestration());
        let noted = noted.map(|noted| noted.of_instance.clone());
        Some(Labels::of_turn(
            name.or_else(started).unwrap_or_default(),
            noted.unwrap_or_default(),
        ))
    }

    fn evict_cache(known: &mut KnownInstance) -> KnownInstance {
        KnownInstance {
            cached: known.cached.take(),
            cancelled: std::mem::take(&mut known.cancelled),
            ..KnownInstance::default()
        }
    }

    fn evict_pending(known: &mut KnownInstance, now: Instant) -> KnownInstance {
        if let Some(due) = Self::due(known) {
            known.search(due.max(now));
        }
        let pending = std::mem::take(&mut known.pending);
        known.pending_bytes = 0;
        known.complete_until = None;
        // Their events are due before the search, and a message may come earlier.
        known.lacks_messages |= known.full.is_some();
        KnownInstance {
            pending,
            ..KnownInstance::default()
        }
    }
}
