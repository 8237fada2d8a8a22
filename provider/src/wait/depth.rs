//! How deep polls look.
//!
//! A poll asks for the first due items. Some of them are nothing for this process, and stay due: instances that cannot
//! start yet or need another version, documents that nobody can read. Were they as many as a poll asks for, nothing
//! behind them would ever be found. So a poll asks for as many more as the one before has found in vain, and again; and
//! when that is as many as it may ask for, the next one goes on behind them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cdb_model::{Document, Indexed, Patchable, Path, Stored, Timestamp, Unreadable};

use crate::documents::FIRST_DUE;

/// Most items that a poll asks for beyond the usual.
const DEEPEST: u32 = 1024;

/// How far the next poll of a queue looks.
#[derive(Debug)]
pub(crate) struct Depth {
    next: Mutex<Next>,
}

#[derive(Clone, Copy, Debug)]
struct Next {
    /// How many items the last poll has found in vain.
    in_vain: u32,
    /// Whatever was due before has just been looked at, in vain.
    from: Timestamp,
}

/// What one poll asks for: items that are due from a time on, in order, and how many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) from: Timestamp,
    pub(crate) rows: u32,
}

/// What it has found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) rows: usize,
    /// Those that are nothing for this process.
    pub(crate) in_vain: usize,
    /// When the last of them was due.
    pub(crate) last: Option<Timestamp>,
}

impl Seen {
    /// What a poll has found, as if none of it were in vain; `due` says when a document is due that can be read.
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
            in_vain: 0,
            last: rows.iter().rev().find_map(due),
        }
    }
}

impl Default for Depth {
    fn default() -> Self {
        let next = Next {
            in_vain: 0,
            from: FIRST_DUE,
        };
        Self {
            next: Mutex::new(next),
        }
    }
}

impl Depth {
    fn next(&self) -> MutexGuard<'_, Next> {
        // Valid between any two statements, so a panic elsewhere does not spoil it.
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the next poll asks for.
    pub(crate) fn look(&self, usual: u32) -> Look {
        let next = *self.next();
        let more = next.in_vain.saturating_mul(2).min(DEEPEST);
        Look {
            from: next.from,
            rows: usual.saturating_add(more),
        }
    }

    /// A poll that has looked so far has found this.
    pub(crate) fn note(&self, look: Look, seen: Seen) {
        let rows = u32::try_from(seen.rows).unwrap_or(u32::MAX);
        let in_vain = u32::try_from(seen.in_vain).unwrap_or(u32::MAX);
        let is_end = rows < look.rows;
        let behind = seen.last.filter(|_| !is_end && in_vain >= DEEPEST);
        *self.next() = match behind {
            // Those that became due at the same moment as the last one are asked for again.
            Some(last) => Next {
                in_vain,
                from: last.max(look.from + Duration::from_millis(1)),
            },
            // From the beginning: what was in vain may be worth a look by now. It lies in the way still, probably.
            None if look.from > FIRST_DUE => Next {
                in_vain: DEEPEST,
                from: FIRST_DUE,
            },
            None => Next {
                in_vain,
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
    fn poll(depth: &Depth, poison: u64) -> Look {
        let look = depth.look(USUAL);
        let before = look.from.as_millis() - FIRST_DUE.as_millis();
        let rows = u64::from(look.rows).min(poison.saturating_sub(before));
        let seen = Seen {
            rows: usize::try_from(rows).unwrap(),
            in_vain: usize::try_from(rows).unwrap(),
            last: (rows > 0).then(|| look.from + Duration::from_millis(rows - 1)),
        };
        depth.note(look, seen);
        look
    }

    /// How many polls it takes to see what lies behind so many items that are found in vain.
    fn polls_behind(depth: &Depth, poison: u64) -> u32 {
        for polls in 1..1_000 {
            let look = poll(depth, poison);
            let seen = look.from.as_millis() - FIRST_DUE.as_millis() + u64::from(look.rows);
            if seen > poison {
                return polls;
            }
        }
        panic!("never seen");
    }

    #[test]
    fn what_lies_behind_others_is_seen_after_a_few_polls() {
        let polls = |poison| polls_behind(&Depth::default(), poison);
        assert_eq!(polls(0), 1);
        assert_eq!(polls(64), 2);
        assert_eq!(polls(200), 3);
        assert_eq!(polls(4000), 8);
        assert_eq!(polls(100_000), 96);
    }

    #[test]
    fn what_lies_behind_any_number_is_seen_again_and_again() {
        let depth = Depth::default();
        polls_behind(&depth, 100_000);
        assert_eq!(polls_behind(&depth, 100_000), 92);
        assert_eq!(poll(&depth, 100_000).from, FIRST_DUE);
    }

    #[test]
    fn more_at_one_moment_than_a_poll_asks_for_does_not_stop_it() {
        let depth = Depth::default();
        let mut from = FIRST_DUE;
        for _ in 0..10 {
            let look = depth.look(USUAL);
            let rows = usize::try_from(look.rows).unwrap();
            let seen = Seen {
                rows,
                in_vain: rows,
                last: Some(FIRST_DUE),
            };
            depth.note(look, seen);
            from = from.max(look.from);
        }
        assert!(from > FIRST_DUE);
    }

    #[test]
    fn polls_are_shallow_again_when_nothing_lies_in_the_way() {
        let depth = Depth::default();
        polls_behind(&depth, 100_000);
        // What lay in the way was looked at to its end.
        let look = depth.look(USUAL);
        assert_eq!((look.from, look.rows), (FIRST_DUE, USUAL + DEEPEST));
        let nothing = Seen {
            rows: 0,
            in_vain: 0,
            last: None,
        };
        depth.note(look, nothing);
        assert_eq!(depth.look(USUAL).rows, USUAL);
    }

    #[test]
    fn a_poll_that_has_found_something_to_do_is_followed_by_one_from_the_beginning() {
        let depth = Depth::default();
        while depth.look(USUAL).from == FIRST_DUE {
            poll(&depth, 100_000);
        }
        let look = depth.look(USUAL);
        let seen = Seen {
            rows: usize::try_from(look.rows).unwrap(),
            in_vain: 10,
            last: Some(look.from + Duration::from_secs(5)),
        };
        depth.note(look, seen);
        assert_eq!(depth.look(USUAL).from, FIRST_DUE);
    }
}
