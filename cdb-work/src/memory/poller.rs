//! The progress of the search for messages that other processes stored.

use std::collections::BTreeSet;
use std::time::Duration;

use cdb_model::{Stored, Timestamp};
use tokio::time::Instant;

use crate::streams::documents::WorkMessage;
use crate::timing::FIRST_PAUSE;
use cdb_coordination::search::Rows;

/// Messages per search.
const PAGE: u32 = 250;

/// The progress of the search.
#[derive(Debug)]
pub(crate) struct Poller {
    /// The time of the newest message that was found.
    pub(crate) newest: Timestamp,
    /// How far the current sweep has come.
    pub(crate) sweeping: Option<Timestamp>,
    /// Whether the sweep began with the oldest message.
    is_whole: bool,
    pub(crate) next_sweep: Option<Instant>,
    pub(crate) next_search: Option<Instant>,
    pub(crate) pause: Duration,
    pub(crate) page: u32,
    /// The held partitions that did not answer a search.
    pub(crate) missed: BTreeSet<u16>,
}

impl Default for Poller {
    fn default() -> Self {
        Self {
            newest: Timestamp::default(),
            sweeping: None,
            is_whole: false,
            next_sweep: None,
            next_search: None,
            pause: FIRST_PAUSE,
            page: PAGE,
            missed: BTreeSet::new(),
        }
    }
}

/// The place of a page in its search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// There may be more messages behind it.
    Full,
    Last,
    /// The last page of a sweep over all messages.
    LastOfSweep,
}

impl Poller {
    /// Starts a sweep over all messages.
    pub(crate) fn start_sweep(&mut self) {
        self.sweeping = Some(Timestamp::default());
        self.is_whole = true;
    }

    /// Takes over a page that was read from `from` on.
    pub(crate) fn advance(
        &mut self,
        from: Timestamp,
        now: Timestamp,
        waiting: &Rows<Stored<WorkMessage>>,
    ) -> Page {
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
            return if std::mem::take(&mut self.is_whole) {
                Page::LastOfSweep
            } else {
                Page::Last
            };
        }
        if last == from {
            // More messages than a page have the same time.
            self.page = self.page.saturating_mul(2);
        }
        // A full page makes the search a sweep: all later messages have to be read.
        self.sweeping = Some(last);
        Page::Full
    }
}
