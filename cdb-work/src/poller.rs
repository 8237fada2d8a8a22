//! The progress of the search for messages that other processes stored.

use std::time::Duration;

use cdb_model::{Stored, Timestamp};
use tokio::time::Instant;

use super::documents::WorkMessage;
use cdb_coordination::Rows;

/// Messages per search.
const PAGE: u32 = 250;

/// The first wait after a search without messages.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The progress of the search.
#[derive(Debug)]
pub(super) struct Poller {
    /// The time of the newest message that was found.
    pub(super) newest: Timestamp,
    /// How far the current sweep has come.
    pub(super) sweeping: Option<Timestamp>,
    pub(super) next_sweep: Option<Instant>,
    pub(super) next_search: Option<Instant>,
    pub(super) pause: Duration,
    pub(super) page: u32,
}

impl Default for Poller {
    fn default() -> Self {
        Self {
            newest: Timestamp::default(),
            sweeping: None,
            next_sweep: None,
            next_search: None,
            pause: FIRST_PAUSE,
            page: PAGE,
        }
    }
}

impl Poller {
    /// Takes over a page that was read from `from` on. Returns `true` if it was the last one.
    pub(super) fn advance(
        &mut self,
        from: Timestamp,
        now: Timestamp,
        waiting: &Rows<Stored<WorkMessage>>,
    ) -> bool {
        let found = waiting.rows.len() + waiting.unreadable.len();
        let full = u32::try_from(found).unwrap_or(u32::MAX) >= self.page;
        let last = waiting.rows.last();
        let last = last.and_then(|row| row.document.waiting_since);
        let last = last.unwrap_or(from);
        // A message that is due later is found again: others may arrive before it.
        self.newest = self.newest.max(last.min(now));
        if !full {
            self.sweeping = None;
            self.page = PAGE;
            return true;
        }
        if last == from {
            // More messages than a page have the same time.
            self.page = self.page.saturating_mul(2);
        }
        // A full page makes the search a sweep: all later messages have to be read.
        self.sweeping = Some(last);
        false
    }
}
