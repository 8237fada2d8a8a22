//! Physical partitions: ranges of the hash space. They are equal at first, a split halves one, and a
//! merge joins two.
//!
//! As on the service, a split or merge removes ranges, and the new ones name them as parents. Ids are
//! never reused, so the next free id is the version of the list of ranges.

use rusqlite::types::ValueRef;
use serde::{Deserialize, Serialize};

use super::epk::Version;
use crate::protocol::ServiceError;

/// A physical partition: a range of the hash space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PhysicalRange {
    pub(crate) id: String,
    /// Inclusive.
    pub(crate) min: String,
    /// Exclusive.
    pub(crate) max: String,
    /// The ranges that were split or merged to create this one, the oldest first.
    #[serde(default)]
    pub(crate) parents: Vec<String>,
}

impl PhysicalRange {
    /// Returns whether the range contains an effective partition key.
    pub(crate) fn holds(&self, epk: &str) -> bool {
        *self.min <= *epk && *epk < *self.max
    }

    /// Returns the id as a number. A newer range has a higher number.
    pub(crate) fn number(&self) -> u64 {
        self.id.parse().unwrap_or_default()
    }

    /// Returns whether `id` is the id of this range or of one of its parents.
    pub(crate) fn descends_from(&self, id: &str) -> bool {
        self.id == id || self.parents.iter().any(|parent| parent == id)
    }
}

/// Divides the hash space into equal ranges.
pub(in crate::store) fn evenly(version: Version, count: u32) -> Vec<PhysicalRange> {
    (0..count)
        .map(|at| PhysicalRange {
            id: at.to_string(),
            min: version.boundary(at, count),
            max: version.boundary(at + 1, count),
            parents: Vec::new(),
        })
        .collect()
}

/// Reads the ranges of a container from its column. Older data have only the number of ranges, and
/// version 2.
pub(in crate::store) fn from_column(stored: ValueRef<'_>) -> Vec<PhysicalRange> {
    match stored {
        ValueRef::Integer(count) => evenly(Version::V2, u32::try_from(count).unwrap_or(1)),
        ValueRef::Text(json) => serde_json::from_slice(json).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// Returns the next free id.
pub(crate) fn next_number(ranges: &[PhysicalRange]) -> u64 {
    let numbers = ranges.iter().map(PhysicalRange::number);
    numbers.max().map_or(0, |highest| highest + 1)
}

/// Splits a range in the middle. Fails if the range does not exist or is too narrow.
pub(in crate::store) fn split(
    version: Version,
    ranges: &[PhysicalRange],
    id: &str,
) -> Result<Vec<PhysicalRange>, ServiceError> {
    let parent = ranges
        .iter()
        .find(|range| range.id == id)
        .ok_or_else(ServiceError::range_gone)?;
    let middle = version.middle(&parent.min, &parent.max).ok_or_else(|| {
        ServiceError::bad_request("The physical partition is too narrow to be split.")
    })?;
    let number = next_number(ranges);
    let mut parents = parent.parents.clone();
    parents.push(parent.id.clone());
    let child = |number: u64, min: &str, max: &str| PhysicalRange {
        id: number.to_string(),
        min: min.to_owned(),
        max: max.to_owned(),
        parents: parents.clone(),
    };
    let mut after: Vec<PhysicalRange> = Vec::with_capacity(ranges.len() + 1);
    for range in ranges {
        if range.id == id {
            after.push(child(number, &range.min, &middle));
            after.push(child(number + 1, &middle, &range.max));
        } else {
            after.push(range.clone());
        }
    }
    Ok(after)
}

/// Merges two neighbours into one range, which has both as parents (azure_data_cosmos_driver,
/// `in_memory_emulator/store.rs`, "merges have two"). Fails if a range does not exist, or they are no
/// neighbours.
pub(in crate::store) fn merge(
    ranges: &[PhysicalRange],
    [low, high]: [&str; 2],
) -> Result<Vec<PhysicalRange>, ServiceError> {
    let find = |id: &str| ranges.iter().position(|range| range.id == id);
    let at = find(low).ok_or_else(ServiceError::range_gone)?;
    if find(high).ok_or_else(ServiceError::range_gone)? != at + 1 {
        return Err(ServiceError::bad_request(
            "The physical partitions are not next to each other.",
        ));
    }
    let mut after = ranges.to_vec();
    let upper = after.remove(at + 1);
    let merged = &mut after[at];
    let inherited = upper.parents.into_iter();
    let inherited: Vec<String> = inherited
        .filter(|id| !merged.parents.contains(id))
        .collect();
    merged.parents.extend(inherited);
    merged.parents.extend([low.to_owned(), high.to_owned()]);
    merged.max = upper.max;
    merged.id = next_number(ranges).to_string();
    Ok(after)
}

/// Returns the ranges as they were before the last split; as they are, if a merge followed it.
pub(crate) fn before_last_split(ranges: &[PhysicalRange]) -> Vec<PhysicalRange> {
    let newest = ranges.iter().max_by_key(|range| range.number());
    let Some((parent, ancestors)) = newest.and_then(|newest| newest.parents.split_last()) else {
        return ranges.to_vec();
    };
    let is_child = |range: &PhysicalRange| range.parents.last() == Some(parent);
    if ranges.iter().filter(|range| is_child(range)).count() == 1 {
        return ranges.to_vec();
    }
    let mut before: Vec<PhysicalRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match before.last_mut() {
            // The low child became the parent; this is the high child.
            Some(last) if is_child(range) && last.id == *parent => last.max.clone_from(&range.max),
            _ if is_child(range) => before.push(PhysicalRange {
                id: parent.clone(),
                parents: ancestors.to_vec(),
                ..range.clone()
            }),
            _ => before.push(range.clone()),
        }
    }
    before
}

#[cfg(test)]
mod tests {
    use super::Version::V2;
    use super::*;

    #[test]
    fn a_split_leaves_no_gap_and_names_all_ancestors() {
        let once = split(V2, &evenly(V2, 1), "0").unwrap();
        let twice = split(V2, &once, "2").unwrap();
        let shown: Vec<(&str, &str, &str, String)> = twice
            .iter()
            .map(|range| {
                (
                    &*range.id,
                    &*range.min,
                    &*range.max,
                    range.parents.join(","),
                )
            })
            .collect();
        let middle = "2000000000000000";
        let upper = "3000000000000000";
        assert_eq!(
            shown,
            [
                ("1", "", middle, "0".to_owned()),
                ("3", middle, upper, "0,2".to_owned()),
                ("4", upper, "FF", "0,2".to_owned()),
            ]
        );
        assert_eq!(split(V2, &twice, "2").unwrap_err().status, 410);
        assert_eq!(before_last_split(&twice), once);
        assert_eq!(before_last_split(&once), evenly(V2, 1));
        assert_eq!(before_last_split(&evenly(V2, 3)), evenly(V2, 3));
    }

    #[test]
    fn a_merge_joins_neighbours_and_names_both() {
        let split = split(V2, &evenly(V2, 2), "0").unwrap();
        let merged = merge(&split, ["3", "1"]).unwrap();
        let last = merged.last().unwrap();
        assert_eq!(
            (&*last.id, &*last.min, &*last.max),
            ("4", "1000000000000000", "FF")
        );
        assert_eq!(last.parents, ["0", "3", "1"]);
        assert_eq!(before_last_split(&merged), merged);
        let refused = |ids| merge(&split, ids).unwrap_err().status;
        assert_eq!([refused(["2", "1"]), refused(["0", "1"])], [400, 410]);
    }

    #[test]
    fn a_range_of_one_hash_cannot_be_split() {
        let mut ranges = evenly(V2, 1);
        for _ in 0..62 {
            let id = ranges[0].id.clone();
            ranges = split(V2, &ranges, &id).unwrap();
        }
        let id = ranges[0].id.clone();
        assert_eq!(split(V2, &ranges, &id).unwrap_err().status, 400);
    }
}
