//! Finds what was passed in real time: an effect that had ended before another one began, although it
//! has a higher rank.

use std::collections::BTreeMap;

use crate::read::{Moment, Record};

/// An effect with its rank: its place in an order that must agree with time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranked<'a, R> {
    pub(crate) at: &'a Moment,
    pub(crate) rank: R,
}

/// Returns for each later effect, given by its begin, an earlier one, given by its end, with a higher
/// rank. Takes `n log n` time for each pair of files.
pub(crate) fn passed<R: Ord + Copy>(
    record: &Record,
    earlier: &[Ranked<'_, R>],
    later: &[Ranked<'_, R>],
) -> Vec<(usize, usize)> {
    let mut files: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, one) in earlier.iter().enumerate() {
        files.entry(one.at.file).or_default().push(index);
    }
    for file in files.values_mut() {
        file.sort_by_key(|index| earlier[*index].at.line);
    }
    let highest: Vec<(Vec<usize>, Vec<usize>)> = files
        .into_values()
        .map(|file| {
            let best = file.iter().scan(file[0], |best, index| {
                if earlier[*index].rank > earlier[*best].rank {
                    *best = *index;
                }
                Some(*best)
            });
            let best = best.collect();
            (file, best)
        })
        .collect();
    let mut found = Vec::new();
    for (index, one) in later.iter().enumerate() {
        let pair = highest.iter().find_map(|(file, best)| {
            let ended = file.partition_point(|it| record.is_before(earlier[*it].at, one.at));
            let before = best[ended.checked_sub(1)?];
            let (at, rank) = (earlier[before].at, earlier[before].rank);
            (rank > one.rank && record.is_before(at, one.at)).then_some((before, index))
        });
        found.extend(pair);
    }
    found
}
