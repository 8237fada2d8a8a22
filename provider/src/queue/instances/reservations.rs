//! The reservations of messages for the process that sends them. A reserved message is hidden from
//! other runtimes for a while. A later message of the same sender that is not hidden would be received
//! before it, when another runtime has taken over the instance.

use std::collections::HashMap;

use cdb_model::Timestamp;
use parking_lot::Mutex;

use crate::stored::documents::OrchestratorItem;
use crate::timing::MOMENT;

/// The entries from which on old ones are removed.
const MANY: usize = 1_024;

/// The last reservation of each instance, or the message that is due after it.
#[derive(Debug, Default)]
pub(crate) struct Reservations(Mutex<Last>);

#[derive(Debug, Default)]
struct Last {
    of: HashMap<String, Reserved>,
    /// The number of entries at which those that are over are removed.
    many: usize,
}

#[derive(Clone, Copy, Debug)]
struct Reserved {
    /// From when on a later message may be due for all.
    until: Timestamp,
    /// Whether a later message is not reserved.
    is_over: bool,
}

impl Reservations {
    /// Reserves a message if this process handles it. Otherwise it is due after the messages that are
    /// reserved, and so are all others until then.
    pub(crate) fn place(
        &self,
        message: OrchestratorItem,
        is_local: bool,
        now: Timestamp,
    ) -> OrchestratorItem {
        let mut last = self.0.lock();
        let before = last.of.get_mut(&message.instance_id);
        if let Some(before) = before.filter(|before| before.until > now)
            && (before.is_over || !is_local)
        {
            let visible_at = message.visible_at.max(before.until);
            // The store sorts by due times alone.
            *before = Reserved {
                until: visible_at + MOMENT,
                is_over: true,
            };
            return OrchestratorItem {
                visible_at,
                ..message
            };
        }
        if !is_local {
            return message;
        }
        let message = message.reserved(now);
        if let Some(until) = message.reserved_until() {
            last.note(&message.instance_id, until + MOMENT, now);
        }
        message
    }
}

impl Last {
    fn note(&mut self, instance_id: &str, until: Timestamp, now: Timestamp) {
        if self.of.len() >= self.many.max(MANY) {
            self.of.retain(|_, reserved| reserved.until > now);
            self.many = 2 * self.of.len();
        }
        let is_over = false;
        self.of
            .insert(instance_id.to_owned(), Reserved { until, is_over });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn message(instance: usize, now: Timestamp) -> OrchestratorItem {
        OrchestratorItem {
            instance_id: format!("i-{instance}"),
            visible_at: now,
            ..OrchestratorItem::default()
        }
    }

    #[test]
    fn messages_stay_in_order_whether_they_are_reserved_or_not() {
        let reservations = Reservations::default();
        let start = Timestamp::from_millis(1_700_000_000_000);
        let mut last = (start, start);
        for (number, is_local) in [true, true, false, true, false, true].iter().enumerate() {
            let now = start + Duration::from_millis(10) * u32::try_from(number).unwrap_or(0);
            let placed = reservations.place(message(1, now), *is_local, now);
            let at = (placed.visible_at, placed.due_at());
            assert!(at.0 > last.0 && at.1 >= last.1, "{number}: {at:?} {last:?}");
            last = at;
        }
        // The reservations are over.
        let later = start + Duration::from_secs(2);
        assert!(!reservations.place(message(1, later), false, later).reserved);
        let at = reservations
            .place(message(1, later), false, later)
            .visible_at;
        assert_eq!(at, later);
        assert!(reservations.place(message(1, later), true, later).reserved);
        let other = reservations.place(message(2, later), false, later);
        assert_eq!(other.visible_at, later);
    }

    #[test]
    fn reservations_that_are_over_are_forgotten() {
        let reservations = Reservations::default();
        let mut now = Timestamp::from_millis(1_700_000_000_000);
        for instance in 0..10 * MANY {
            now = now + Duration::from_millis(10);
            let _reserved = reservations.place(message(instance, now), true, now);
        }
        assert!(reservations.0.lock().of.len() <= MANY);
    }
}
