//! Finds what was passed in real time: an effect that had ended before another one began, although it
//! has a higher rank.

use std::collections::BTreeMap;

use crate::read::{Call, Record};

/// A call with its rank: its place in an order that must agree with time.
pub(crate) type Ranked<'a, R> = (R, &'a Call);

/// Returns for each later call an earlier one that ended before it began, with a higher rank. Takes
/// `n log n` time for each pair of files.
pub(crate) fn passed<R: Ord + Copy>(
    record: &Record,
    earlier: &[Ranked<'_, R>],
    later: &[Ranked<'_, R>],
) -> Vec<(usize, usize)> {
    let mut files: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, (_, call)) in earlier.iter().enumerate() {
        if call.end.is_some() {
            files.entry(call.begin.file).or_default().push(index);
        }
    }
    let ends_before = |index: usize, call: &Call| {
        let end = earlier[index].1.end;
        end.is_some_and(|end| record.is_before(&end, &call.begin))
    };
    let highest: Vec<(Vec<usize>, Vec<usize>)> = files
        .into_values()
        .map(|mut file| {
            file.sort_by_key(|index| earlier[*index].1.end.map(|end| end.line));
            let best = file.iter().scan(file[0], |best, index| {
                if earlier[*index].0 > earlier[*best].0 {
                    *best = *index;
                }
                Some(*best)
            });
            let best = best.collect();
            (file, best)
        })
        .collect();
    let mut found = Vec::new();
    for (index, (rank, call)) in later.iter().enumerate() {
        let pair = highest.iter().find_map(|(file, best)| {
            let ended = file.partition_point(|it| ends_before(*it, call));
            let before = best[ended.checked_sub(1)?];
            (earlier[before].0 > *rank && ends_before(before, call)).then_some((before, index))
        });
        found.extend(pair);
    }
    found
}
