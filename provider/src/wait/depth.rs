//! How deep polls look.
//!
//! A poll asks for the first due items. Some of them are nothing for this process, and stay due: instances that cannot
//! start yet or need another version, documents that nobody can read. Were they as many as a poll asks for, nothing
//! behind them would ever be found. So a poll asks for as many more as the one before has found in vain, and again.

use std::sync::atomic::{AtomicU32, Ordering};

/// Most items that a poll asks for beyond the usual.
const DEEPEST: u32 = 4096;

/// How many items the last poll of a queue has found in vain.
#[derive(Debug, Default)]
pub(crate) struct Depth {
    in_vain: AtomicU32,
}

impl Depth {
    /// How many items the next poll asks for.
    pub(crate) fn rows(&self, usual: u32) -> u32 {
        let more = self.in_vain.load(Ordering::Relaxed).saturating_mul(2);
        usual.saturating_add(more.min(DEEPEST))
    }

    /// So many of the items that a poll has found were nothing for this process.
    pub(crate) fn note(&self, in_vain: usize) {
        let in_vain = u32::try_from(in_vain).unwrap_or(u32::MAX);
        self.in_vain.store(in_vain, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many polls it takes to see what lies behind so many items that are found in vain.
    fn polls_behind(poison: u32) -> u32 {
        let depth = Depth::default();
        for poll in 1..100 {
            let rows = depth.rows(64);
            if rows > poison {
                return poll;
            }
            depth.note(usize::try_from(rows.min(poison)).unwrap());
        }
        panic!("never seen");
    }

    #[test]
    fn what_lies_behind_others_is_seen_after_a_few_polls() {
        assert_eq!(polls_behind(0), 1);
        assert_eq!(polls_behind(64), 2);
        assert_eq!(polls_behind(200), 3);
        assert_eq!(polls_behind(4000), 6);
    }

    #[test]
    fn polls_are_shallow_again_when_nothing_lies_in_the_way() {
        let depth = Depth::default();
        depth.note(usize::MAX);
        assert_eq!(depth.rows(64), 64 + DEEPEST);
        depth.note(0);
        assert_eq!(depth.rows(64), 64);
    }
}
