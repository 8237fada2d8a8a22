//! How many items a poll asks for, and from which due time on.
//!
//! A poll asks for the first due items. Some of them cannot be worked on here and stay due: instances that cannot start yet
//! or need another version, unreadable documents. If they were as many as a poll asks for, no item behind them would ever be
//! found. So a poll asks for more items, the more of the last poll's items could not be used; when it may not ask for more,
//! the next poll starts behind them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cdb_model::{Document, Indexed, Patchable, Path, Stored, Timestamp, Unreadable};

use crate::documents::FIRST_DUE;

/// Most items that a poll asks for beyond the usual number.
const MOST_EXTRA: u32 = 1024;

/// The window of the next poll of a queue.
#[derive(Debug)]
pub(crate) struct PollWindow {
    /// How many items a poll asks for, unless it has to look past unusable ones.
    usual: u32,
    next: Mutex<Next>,
}

#[derive(Clone, Copy, Debug)]
struct Next {
    /// How many items of the last poll could not be used.
    unusable: u32,
    /// All items that were due before have just been seen, and could not be used.
    from: Timestamp,
}

/// What one poll asks for: how many items, in order, from a due time on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) from: Timestamp,
    pub(crate) rows: u32,
}

/// What a poll has found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) rows: usize,
    /// Rows that cannot be used here.
    pub(crate) unusable: usize,
    /// When the last of them was due.
    pub(crate) last: Option<Timestamp>,
}

impl Seen {
    /// What a poll has found, with every row usable. `due` is the due time of a readable document.
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
    pub(crate) fn new(usual: u32) -> Self {
        let next = Next {
            unusable: 0,
            from: FIRST_DUE,
        };
        Self {
            usual,
            next: Mutex::new(next),
        }
    }

    fn next(&self) -> MutexGuard<'_, Next> {
        // Valid between any two statements, so a panic elsewhere does not spoil it.
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the next poll asks for.
    pub(crate) fn look(&self) -> Look {
        let next = *self.next();
        let more = next.unusable.saturating_mul(2).min(MOST_EXTRA);
        Look {
            from: next.from,
            rows: self.usual.saturating_add(more),
        }
    }

    /// Notes what a poll with this window has found.
    pub(crate) fn note(&self, look: Look, seen: Seen) {
        let rows = u32::try_from(seen.rows).unwrap_or(u32::MAX);
        let unusable = u32::try_from(seen.unusable).unwrap_or(u32::MAX);
        let is_end = rows < look.rows;
        let behind = seen.last.filter(|_| !is_end && unusable >= MOST_EXTRA);
        *self.next() = match behind {
            // Items due at the same moment as the last one are asked for again.
            Some(last) => Next {
                unusable,
                from: last.max(look.from + Duration::from_millis(1)),
            },
            // Restart from the oldest item: earlier skipped items may be usable now.
            None if look.from > FIRST_DUE => Next {
                unusable: MOST_EXTRA,
                from: FIRST_DUE,
            },
            None => Next {
                unusable,
                from: FIRST_DUE,
            },
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: u32 = 64;

    /// What a poll finds of items of which each is due a millisecond after the one before, all of them in vain.
    fn poll(window: &PollWindow, poison: u64) -> Look {
        let look = window.look();
        let before = look.from.as_millis() - FIRST_DUE.as_millis();
        let rows = u64::from(look.rows).min(poison.saturating_sub(before));
        let seen = Seen {
            rows: usize::try_from(rows).unwrap(),
            unusable: usize::try_from(rows).unwrap(),
            last: (rows > 0).then(|| look.from + Duration::from_millis(rows - 1)),
        };
        window.note(look, seen);
        look
    }

    /// How many polls it takes to see what lies behind so many items that are found in vain.
    fn polls_behind(window: &PollWindow, poison: u64) -> u32 {
        for polls in 1..1_000 {
            let look = poll(window, poison);
            let seen = look.from.as_millis() - FIRST_DUE.as_millis() + u64::from(look.rows);
            if seen > poison {
                return polls;
            }
        }
        panic!("never seen");
    }

    #[test]
    fn what_lies_behind_others_is_seen_after_a_few_polls() {
        let polls = |poison| polls_behind(&PollWindow::new(USUAL), poison);
        assert_eq!(polls(0), 1);
        assert_eq!(polls(64), 2);
        assert_eq!(polls(200), 3);
        assert_eq!(polls(4000), 8);
        assert_eq!(polls(100_000), 96);
    }

    #[test]
    fn what_lies_behind_any_number_is_seen_again_and_again() {
        let window = PollWindow::new(USUAL);
        polls_behind(&window, 100_000);
        assert_eq!(polls_behind(&window, 100_000), 92);
        assert_eq!(poll(&window, 100_000).from, FIRST_DUE);
    }

    #[test]
    fn more_at_one_moment_than_a_poll_asks_for_does_not_stop_it() {
        let window = PollWindow::new(USUAL);
        let mut from = FIRST_DUE;
        for _ in 0..10 {
            let look = window.look();
            let rows = usize::try_from(look.rows).unwrap();
            let seen = Seen {
                rows,
                unusable: rows,
                last: Some(FIRST_DUE),
            };
            window.note(look, seen);
            from = from.max(look.from);
        }
        assert!(from > FIRST_DUE);
    }

    #[test]
    fn polls_are_shallow_again_when_nothing_lies_in_the_way() {
        let window = PollWindow::new(USUAL);
        polls_behind(&window, 100_000);
        // What lay in the way was looked at to its end.
        let look = window.look();
        assert_eq!((look.from, look.rows), (FIRST_DUE, USUAL + MOST_EXTRA));
        let nothing = Seen {
            rows: 0,
            unusable: 0,
            last: None,
        };
        window.note(look, nothing);
        assert_eq!(window.look().rows, USUAL);
    }

    #[test]
    fn a_poll_that_has_found_something_to_do_is_followed_by_one_from_the_beginning() {
        let window = PollWindow::new(USUAL);
        while window.look().from == FIRST_DUE {
            poll(&window, 100_000);
        }
        let look = window.look();
        let seen = Seen {
            rows: usize::try_from(look.rows).unwrap(),
            unusable: 10,
            last: Some(look.from + Duration::from_secs(5)),
        };
        window.note(look, seen);
        assert_eq!(window.look().from, FIRST_DUE);
    }
}
