//! What earlier queries for free documents have taught: how wide to search, and how much is
//! unreadable.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The largest factor by which a query asks for more candidates than are wanted.
const WIDEST: usize = 32;

/// The estimate that the clones of a [`Leases`](super::Leases) share. A lost update makes the next
/// query a little worse, so the two values are independent and relaxed.
#[derive(Debug)]
pub(super) struct Contention {
    width: AtomicUsize,
    unreadable: AtomicUsize,
}

impl Default for Contention {
    fn default() -> Self {
        Self {
            width: AtomicUsize::new(1),
            unreadable: AtomicUsize::new(0),
        }
    }
}

impl Contention {
    /// How many times more candidates than wanted the next query asks for.
    pub(super) fn width(&self) -> usize {
        self.width.load(Ordering::Relaxed)
    }

    /// Adapts the width after competitors leased `collided` of the `wanted` documents first.
    pub(super) fn adapt(&self, collided: usize, wanted: usize) {
        let width = self.width();
        let width = match collided {
            0 => (width - 1).max(1),
            few if few * 4 < wanted => width,
            _ => (width * 2).min(WIDEST),
        };
        self.width.store(width, Ordering::Relaxed);
    }

    /// How many unreadable documents to expect before the first readable ones.
    pub(super) fn unreadable(&self) -> usize {
        self.unreadable.load(Ordering::Relaxed)
    }

    pub(super) fn set_unreadable(&self, count: usize) {
        self.unreadable.store(count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collisions_widen_the_search_and_their_absence_narrows_it() {
        let contention = Contention::default();
        let width = |collided| {
            contention.adapt(collided, 20);
            contention.width()
        };
        assert_eq!(
            [width(0), width(4), width(5), width(20), width(2)],
            [1, 1, 2, 4, 4]
        );
        (0..20).for_each(|_| contention.adapt(20, 20));
        assert_eq!(contention.width(), WIDEST);
        (0..40).for_each(|_| contention.adapt(0, 20));
        assert_eq!(contention.width(), 1);
    }
}
