//! The rule of every search for due items: an item that cannot run now never takes the place of one
//! that can.
//!
//! A search reads due items, oldest first. Some of them cannot run now and stay due: they are held,
//! blocked, unreadable, or wait for a backoff. A search counts the items that can run, and reads on
//! until it has enough of them. After [`MAX_ROWS`] rows it stops, and a later search continues
//! behind them. So an item behind `n` others is read after at most `2 + 2 * n / MAX_ROWS` searches.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cdb_model::Timestamp;
use derive_where::derive_where;

/// The most rows that one search reads before it stops.
pub(crate) const MAX_ROWS: u32 = 2_048;

/// Whether an item can run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// It can run.
    Now,
    /// It is held, blocked, unreadable or waiting.
    NotNow,
}

impl Runs {
    /// Returns [`Now`](Self::Now) under a condition.
    pub fn now_if(can_run: bool) -> Self {
        if can_run { Self::Now } else { Self::NotNow }
    }
}

/// Where the searches of each part of a container begin, for example of each physical partition.
#[derive(Debug)]
#[derive_where(Default)]
pub struct Windows<P> {
    parts: Mutex<HashMap<P, Part>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    /// The number of rows that could not run in the last search.
    blocked: u32,
    /// The due time at which a search stopped before the last item.
    stopped_at: Option<Timestamp>,
    /// Whether the next search starts there, and not with the oldest item. Every other search does,
    /// because the oldest items may be able to run again.
    continues: bool,
}

/// A search for due items in one part.
#[derive(Debug)]
pub struct Search {
    wanted: u32,
    page_size: u32,
    from: Option<Timestamp>,
    rows: u32,
    blocked: u32,
    last: Option<Timestamp>,
    is_complete: bool,
}

impl<P: Clone + Eq + Hash> Windows<P> {
    fn parts(&self) -> MutexGuard<'_, HashMap<P, Part>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a search for at least `wanted` items that can run. Its pages have room for as many
    /// again, and for those that could not run in the last search.
    pub fn search(&self, part: &P, wanted: u32) -> Search {
        let part = self.parts().get(part).copied().unwrap_or_default();
        let page_size = wanted.saturating_mul(2).saturating_add(part.blocked);
        Search {
            wanted,
            page_size,
            from: part.stopped_at.filter(|_| part.continues),
            rows: 0,
            blocked: 0,
            last: None,
            is_complete: false,
        }
    }

    /// Notes the end of a search.
    pub fn finish(&self, part: &P, search: &Search) {
        let mut parts = self.parts();
        let before = parts.get(part).copied().unwrap_or_default();
        let stopped_at = match search.from {
            _ if search.is_complete => None,
            None if before.stopped_at.is_some() => before.stopped_at,
            _ if search.has_enough() => before.stopped_at,
            // The items due at the same time as the last row are read again, unless all rows are.
            from => search
                .last
                .max(from.map(|from| from + Duration::from_millis(1))),
        };
        let after = Part {
            blocked: search.blocked.min(MAX_ROWS),
            stopped_at,
            continues: stopped_at.is_some() && search.from.is_none(),
        };
        if after == Part::default() {
            parts.remove(part);
        } else {
            parts.insert(part.clone(), after);
        }
    }
}

impl Search {
    /// Returns the earliest due time that the search reads; `None` for all times.
    pub fn from(&self) -> Option<Timestamp> {
        self.from
    }

    /// Returns the number of rows of a page.
    pub fn page_size(&self) -> u32 {
        self.page_size
    }

    /// Notes a row with its due time, if it is known.
    pub fn note(&mut self, due: Option<Timestamp>, runs: Runs) {
        self.rows += 1;
        self.blocked += u32::from(runs == Runs::NotNow);
        self.last = due.or(self.last);
    }

    /// Notes that there are no more rows.
    pub fn complete(&mut self) {
        self.is_complete = true;
    }

    /// Returns whether the search must read another page.
    pub fn reads_on(&self) -> bool {
        !self.is_complete && !self.has_enough() && self.rows < MAX_ROWS
    }

    fn has_enough(&self) -> bool {
        self.rows - self.blocked >= self.wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: u32 = 32;
    const START: Timestamp = Timestamp::from_secs(1_000);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Due items: whether each can run, and its due time.
    #[derive(Clone)]
    struct Items(Vec<(Timestamp, Runs)>);

    impl Items {
        /// Items that cannot run, each due a millisecond after the former one, and one that can.
        fn behind(blocked: u64) -> Self {
            let items = (0..blocked).map(|at| (START + ms(at), Runs::NotNow));
            Self(items.chain([(START + ms(blocked), Runs::Now)]).collect())
        }

        /// Searches once. Returns the positions of the items that were found and can run, and the
        /// number of pages.
        fn search(&self, windows: &Windows<u8>) -> (Vec<usize>, u32) {
            let mut search = windows.search(&0, WANTED);
            let from = search.from();
            let rows = self.0.iter().enumerate();
            let mut rows = rows.filter(|(_, (due, _))| from.is_none_or(|from| *due >= from));
            let (mut found, mut pages) = (Vec::new(), 0);
            while search.reads_on() {
                pages += 1;
                let size = usize::try_from(search.page_size()).expect("few");
                let page: Vec<_> = rows.by_ref().take(size).collect();
                if page.len() < size {
                    search.complete();
                }
                for (at, (due, runs)) in page {
                    search.note(Some(*due), *runs);
                    found.extend((*runs == Runs::Now).then_some(at));
                }
            }
            windows.finish(&0, &search);
            (found, pages)
        }
    }

    /// Returns how many searches it takes to find the last item.
    fn searches(items: &Items, windows: &Windows<u8>) -> usize {
        let last = items.0.len() - 1;
        let mut searches = 1..=10_000;
        let found = searches.find(|_| items.search(windows).0.contains(&last));
        found.expect("it is found")
    }

    #[test]
    fn an_item_behind_blocked_ones_is_found_within_the_promised_number_of_searches() {
        for blocked in [0, 1, 63, 64, 150, 2_047, 2_048, 2_500, 10_000, 100_000] {
            let items = Items::behind(blocked);
            let windows = Windows::default();
            let most = usize::try_from(2 + 2 * blocked / u64::from(MAX_ROWS)).expect("few");
            for _ in 0..3 {
                let searches = searches(&items, &windows);
                assert!(searches <= most, "{searches} searches behind {blocked}");
            }
        }
    }

    #[test]
    fn an_item_that_can_run_again_is_found_within_two_searches_wherever_the_window_stands() {
        let windows = Windows::default();
        let blocked = Items::behind(100_000);
        let mut freed = blocked.clone();
        freed.0[7].1 = Runs::Now;
        for _ in 0..300 {
            blocked.search(&windows);
            let found = (0..2).any(|_| freed.search(&windows).0.contains(&7));
            assert!(found);
        }
    }

    #[test]
    fn a_steady_supply_behind_blocked_items_is_found_again_and_again() {
        let windows = Windows::default();
        let blocked = 5_000;
        let mut items = Items::behind(blocked);
        let supply = (blocked + 1..blocked + 1_000).map(|at| (START + ms(at), Runs::Now));
        items.0.extend(supply);
        let most = 2 + 2 * blocked / u64::from(MAX_ROWS);
        for _ in 0..50 {
            let found = (0..most).any(|_| !items.search(&windows).0.is_empty());
            assert!(found);
        }
    }

    #[test]
    fn blocked_items_of_the_last_search_cost_no_further_page() {
        let windows = Windows::default();
        let items = Items::behind(500);
        assert!(items.search(&windows).1 > 1);
        assert_eq!(items.search(&windows).1, 1);
    }

    #[test]
    fn a_search_stops_at_the_first_page_with_enough_items_that_can_run() {
        let windows = Windows::default();
        let items = Items((0..1_000).map(|at| (START + ms(at), Runs::Now)).collect());
        let (found, pages) = items.search(&windows);
        assert_eq!((found.len(), pages), (64, 1));
        assert_eq!(windows.search(&0, WANTED).page_size(), 2 * WANTED);
    }

    #[test]
    fn more_items_due_at_one_time_than_a_search_reads_do_not_stop_the_window() {
        let windows = Windows::default();
        let mut items = Items((0..5_000).map(|_| (START, Runs::NotNow)).collect());
        items.0.push((START + ms(1), Runs::Now));
        assert!(searches(&items, &windows) <= 4);
    }
}
