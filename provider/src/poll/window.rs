//! The poll window: how many items a poll queries, and from which due time on.
//!
//! A poll queries the first due items. Some of them cannot be used here and stay due: instances
//! that cannot start yet or need another version, undecodable documents. If a poll found only such
//! items, it would never find the items behind them. So a poll queries more rows, the more rows of
//! the last poll were unusable; at the limit, the next poll starts behind them.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use cdb_client::RangeId;
use cdb_model::{Document, Indexed, Patchable, Path, Stored, Timestamp, Unreadable};

use crate::documents::FIRST_DUE;
use crate::mutex::lock;

/// The most rows that a poll queries beyond the base number.
const MAX_EXTRA_ROWS: u32 = 1024;

/// The windows of a queue's next poll, one for each physical partition.
#[derive(Debug)]
pub(crate) struct PollWindow {
    /// The number of rows that a poll queries without unusable items.
    base_rows: u32,
    next: Mutex<HashMap<RangeId, Next>>,
}

#[derive(Clone, Copy, Debug)]
struct Next {
    /// The number of unusable rows in the last poll.
    unusable: u32,
    /// All items that were due before this time were polled, and were unusable.
    from: Timestamp,
}

impl Default for Next {
    fn default() -> Self {
        Self {
            unusable: 0,
            from: FIRST_DUE,
        }
    }
}

/// The request of one poll: the number of rows, in order, from a due time on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollRequest {
    pub(crate) from: Timestamp,
    pub(crate) rows: u32,
}

/// The result of a poll.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollResult {
    pub(crate) rows: usize,
    /// Rows that cannot be used here.
    pub(crate) unusable: usize,
    /// The due time of the last row.
    pub(crate) last: Option<Timestamp>,
}

impl PollResult {
    /// Returns the result of a poll with every row usable. `due` returns the due time of a decoded
    /// document.
    pub(crate) fn of<D: Document>(
        rows: &[Result<Stored<D>, Unreadable>],
        visible_at: Path<D, Timestamp, Indexed, Patchable>,
        due: impl Fn(&D) -> Timestamp,
    ) -> Self {
        let due = |row: &Result<Stored<D>, Unreadable>| match row {
            Ok(stored) => Some(due(&stored.document)),
            Err(found) => found.field(visible_at),
        };
        Self {
            rows: rows.len(),
            unusable: 0,
            last: rows.iter().rev().find_map(due),
        }
    }
}

impl PollWindow {
    pub(crate) fn new(base_rows: u32) -> Self {
        Self {
            base_rows,
            next: Mutex::default(),
        }
    }

    /// Returns the number of rows that a poll queries without unusable items.
    pub(crate) fn base_rows(&self) -> u32 {
        self.base_rows
    }

    /// Returns the request of the next poll of a partition, with `rows` rows and those that were
    /// unusable in the last poll.
    pub(crate) fn next_request(&self, range: &RangeId, rows: u32) -> PollRequest {
        let next = lock(&self.next).get(range).copied().unwrap_or_default();
        let more = next.unusable.saturating_mul(2).min(MAX_EXTRA_ROWS);
        PollRequest {
            from: next.from,
            rows: rows.saturating_add(more),
        }
    }

    /// Notes the result of a poll.
    pub(crate) fn note(&self, range: &RangeId, request: PollRequest, result: PollResult) {
        let rows = u32::try_from(result.rows).unwrap_or(u32::MAX);
        let unusable = u32::try_from(result.unusable).unwrap_or(u32::MAX);
        let is_end = rows < request.rows;
        let skip_to = result
            .last
            .filter(|_| !is_end && unusable >= MAX_EXTRA_ROWS);
        let following = match skip_to {
            // Items due at the same time as the last row are queried again.
            Some(last) => Next {
                unusable,
                from: last.max(request.from + Duration::from_millis(1)),
            },
            // Restart from the oldest item: earlier skipped items may be usable now.
            None if request.from > FIRST_DUE => Next {
                unusable: MAX_EXTRA_ROWS,
                from: FIRST_DUE,
            },
            None => Next {
                unusable,
                from: FIRST_DUE,
            },
        };
        let mut next = lock(&self.next);
        if following.unusable == 0 {
            next.remove(range);
        } else {
            next.insert(range.clone(), following);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE_ROWS: u32 = 64;

    fn range() -> RangeId {
        serde_json::from_str("\"0\"").unwrap()
    }

    fn next_request(window: &PollWindow) -> PollRequest {
        window.next_request(&range(), BASE_ROWS)
    }

    /// Polls `poison` unusable items, each due a millisecond after the previous one.
    fn poll(window: &PollWindow, poison: u64) -> PollRequest {
        let request = next_request(window);
        let before = request.from.as_millis() - FIRST_DUE.as_millis();
        let rows = u64::from(request.rows).min(poison.saturating_sub(before));
        let result = PollResult {
            rows: usize::try_from(rows).unwrap(),
            unusable: usize::try_from(rows).unwrap(),
            last: (rows > 0).then(|| request.from + Duration::from_millis(rows - 1)),
        };
        window.note(&range(), request, result);
        request
    }

    /// Returns how many polls it takes to reach the items behind `poison` unusable ones.
    fn polls_behind(window: &PollWindow, poison: u64) -> u32 {
        for polls in 1..1_000 {
            let request = poll(window, poison);
            let reached =
                request.from.as_millis() - FIRST_DUE.as_millis() + u64::from(request.rows);
            if reached > poison {
                return polls;
            }
        }
        panic!("never reached");
    }

    #[test]
    fn items_behind_unusable_ones_are_reached_after_a_few_polls() {
        let polls = |poison| polls_behind(&PollWindow::new(BASE_ROWS), poison);
        assert_eq!(polls(0), 1);
        assert_eq!(polls(64), 2);
        assert_eq!(polls(200), 3);
        assert_eq!(polls(4000), 8);
        assert_eq!(polls(100_000), 96);
    }

    #[test]
    fn the_window_restarts_after_it_has_passed_the_unusable_items() {
        let window = PollWindow::new(BASE_ROWS);
        polls_behind(&window, 100_000);
        assert_eq!(polls_behind(&window, 100_000), 92);
        assert_eq!(poll(&window, 100_000).from, FIRST_DUE);
    }

    #[test]
    fn more_items_due_at_one_time_than_a_poll_queries_do_not_stop_the_window() {
        let window = PollWindow::new(BASE_ROWS);
        let mut from = FIRST_DUE;
        for _ in 0..10 {
            let request = next_request(&window);
            let rows = usize::try_from(request.rows).unwrap();
            let result = PollResult {
                rows,
                unusable: rows,
                last: Some(FIRST_DUE),
            };
            window.note(&range(), request, result);
            from = from.max(request.from);
        }
        assert!(from > FIRST_DUE);
    }

    #[test]
    fn a_poll_queries_the_base_number_again_when_nothing_is_unusable() {
        let window = PollWindow::new(BASE_ROWS);
        polls_behind(&window, 100_000);
        // The unusable items were passed completely.
        let request = next_request(&window);
        assert_eq!(
            (request.from, request.rows),
            (FIRST_DUE, BASE_ROWS + MAX_EXTRA_ROWS)
        );
        let nothing = PollResult {
            rows: 0,
            unusable: 0,
            last: None,
        };
        window.note(&range(), request, nothing);
        assert_eq!(next_request(&window).rows, BASE_ROWS);
    }

    #[test]
    fn a_poll_with_usable_items_restarts_the_window() {
        let window = PollWindow::new(BASE_ROWS);
        while next_request(&window).from == FIRST_DUE {
            poll(&window, 100_000);
        }
        let request = next_request(&window);
        let result = PollResult {
            rows: usize::try_from(request.rows).unwrap(),
            unusable: 10,
            last: Some(request.from + Duration::from_secs(5)),
        };
        window.note(&range(), request, result);
        assert_eq!(next_request(&window).from, FIRST_DUE);
    }
}
