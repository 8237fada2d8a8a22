//! The progress of the search for messages that others have stored.

use std::time::Duration;

use cdb_model::{Stored, Timestamp};
use tokio::time::Instant;

use super::documents::WorkMessage;
use crate::search::Found;

/// Messages per search.
const PAGE: u32 = 250;

/// The most per search, for when more than a page has the same time.
const LARGEST_PAGE: u32 = 16_000;

/// The first wait after a search that found nothing.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The progress of the search.
#[derive(Debug)]
pub(super) struct Poller {
    /// The newest message that was seen.
    pub(super) newest: Timestamp,
    /// How far the sweep has come, while there is one.
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
    /// A page was read from `from` on; whether it was the last one.
    pub(super) fn advance(
        &mut self,
        from: Timestamp,
        waiting: &Found<Stored<WorkMessage>>,
    ) -> bool {
        let found = waiting.rows.len() + waiting.unreadable.len();
        let full = u32::try_from(found).unwrap_or(u32::MAX) >= self.page;
        let last = waiting.rows.last();
        let last = last.and_then(|row| row.document.waiting_since);
        let last = last.unwrap_or(from);
        self.newest = self.newest.max(last);
        if !full {
            self.sweeping = None;
            self.page = PAGE;
            return true;
        }
        if last == from {
            self.page = self.page.saturating_mul(2).min(LARGEST_PAGE);
        }
        // From here on it is a sweep, even if it was none: everything behind this has to be looked at.
        self.sweeping = Some(last);
        false
    }
}
