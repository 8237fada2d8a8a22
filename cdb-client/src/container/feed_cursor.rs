//! The read position of a change feed, and its division into parts.
//!
//! The position of a physical partition is the `ETag` of the last answer, which may be a 304. After a
//! split, each child continues at the position of its parent.

use cdb_model::{PartitionKey, Timestamp};
use serde::{Deserialize, Serialize};

use crate::epk::{Epk, HashVersion};
use crate::ranges::{Range, RangeId, RangeMap};

/// Where a change feed starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FeedStart {
    /// At the oldest document that still exists.
    Beginning,
    /// At the next change.
    Now,
    /// At this time, with a precision of about five seconds.
    Since(Timestamp),
}

/// The read position of a change feed, or of a part of one. Can be stored and passed to
/// [`ContainerClient::resume_change_feed`](crate::ContainerClient::resume_change_feed).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedCursor {
    pub(super) start: FeedStart,
    /// The part of the hash space that is read; all of it by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) part: Option<FeedPart>,
    pub(super) ranges: Vec<RangeCursor>,
}

/// A part of the hash space of partition keys, from `min` to before `max`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FeedPart {
    min: String,
    max: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RangeCursor {
    pub(super) id: RangeId,
    min: String,
    max: String,
    pub(super) etag: Option<String>,
}

impl FeedCursor {
    /// The position before the first change of a feed.
    pub fn new(start: FeedStart) -> Self {
        Self {
            start,
            part: None,
            ranges: Vec::new(),
        }
    }

    /// Returns whether every physical partition has answered once. Until then the position moves with
    /// [`FeedStart::Now`].
    pub fn is_started(&self) -> bool {
        !self.ranges.is_empty() && self.ranges.iter().all(|range| range.etag.is_some())
    }

    /// Divides the position at the borders of the physical partitions, as the last read has found
    /// them, into at most `most` parts. Together, readers of the parts
    /// read every change after this position.
    ///
    /// A part keeps its borders. After its physical partition is merged with another one, its reader
    /// receives the documents of both and omits those of the other one.
    pub fn parts(&self, most: usize) -> Vec<Self> {
        let ranges_per_part = self.ranges.len().div_ceil(most.max(1)).max(1);
        let parts = self.ranges.chunks(ranges_per_part).map(|ranges| Self {
            start: self.start,
            part: Some(self.part_in(&ranges[0], &ranges[ranges.len() - 1])),
            ranges: ranges.to_vec(),
        });
        parts.collect()
    }

    /// The borders in the hash space of partition keys, such as `05C1DFFFFFFFFC-FF`: unique among
    /// the parts of a position.
    pub fn borders(&self) -> String {
        match &self.part {
            None => "-FF".to_owned(),
            Some(FeedPart { min, max }) => format!("{min}-{max}"),
        }
    }

    /// Returns the intersection with the space from the start of `first` to the end of `last`.
    fn part_in(&self, first: &RangeCursor, last: &RangeCursor) -> FeedPart {
        let (mut min, mut max) = (first.min.clone(), last.max.clone());
        if let Some(part) = &self.part {
            if Epk::from_service(&min) < Epk::from_service(&part.min) {
                min.clone_from(&part.min);
            }
            if Epk::from_service(&part.max) < Epk::from_service(&max) {
                max.clone_from(&part.max);
            }
        }
        FeedPart { min, max }
    }

    /// Applies the ranges of `map`. A new range continues at the cursor of its parent. A merged
    /// range continues at the earlier cursor of its parents, so that no change is missed; some are
    /// read twice.
    pub(super) fn follow(&mut self, map: &RangeMap) {
        let part = self.part.as_ref();
        let covered = || {
            map.iter()
                .filter(|range| part.is_none_or(|part| part.overlaps(range)))
        };
        if self
            .ranges
            .iter()
            .map(|old| &old.id)
            .eq(covered().map(|new| &new.id))
        {
            return;
        }
        let old = std::mem::take(&mut self.ranges);
        self.ranges = covered()
            .map(|range| {
                let origins = old.iter().filter(|old| {
                    Epk::from_service(&old.min) < range.max
                        && range.min < Epk::from_service(&old.max)
                });
                RangeCursor {
                    id: range.id.clone(),
                    min: range.min.to_string(),
                    max: range.max.to_string(),
                    etag: origins
                        .min_by_key(|origin| origin.position())
                        .and_then(|origin| origin.etag.clone()),
                }
            })
            .collect();
    }
}

impl FeedPart {
    fn overlaps(&self, range: &Range) -> bool {
        Epk::from_service(&self.min) < range.max && range.min < Epk::from_service(&self.max)
    }

    /// Returns whether a physical partition exceeds the part.
    pub(super) fn cuts(&self, range: &RangeCursor) -> bool {
        Epk::from_service(&range.min) < Epk::from_service(&self.min)
            || Epk::from_service(&self.max) < Epk::from_service(&range.max)
    }

    /// Returns whether a document with this partition key is in the part. A document whose key this
    /// client does not know or cannot hash may be in every part.
    pub(super) fn may_contain(&self, key: Option<&PartitionKey>) -> bool {
        let (min, max) = (Epk::from_service(&self.min), Epk::from_service(&self.max));
        let ends = [Epk::from_service(""), Epk::from_service("FF")];
        let borders = [&min, &max].into_iter();
        let version = HashVersion::of_boundaries(borders.filter(|border| !ends.contains(border)));
        let epk = key.and_then(|key| Epk::of(key, version));
        epk.is_none_or(|epk| min <= epk && epk < max)
    }
}

impl RangeCursor {
    /// Returns the number in the ETag; -1 before the first answer.
    fn position(&self) -> i64 {
        self.etag
            .as_deref()
            .and_then(|etag| etag.trim_matches('"').parse().ok())
            .unwrap_or(-1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(ranges: &[(&str, &str, &str)]) -> RangeMap {
        let listing = ranges
            .iter()
            .map(|(id, min, max)| {
                serde_json::from_value(serde_json::json!({
                    "id": id, "minInclusive": min, "maxExclusive": max
                }))
                .unwrap()
            })
            .collect();
        RangeMap::from_listing(listing).unwrap()
    }

    fn positions(cursor: &FeedCursor) -> Vec<(String, i64)> {
        cursor
            .ranges
            .iter()
            .map(|range| (range.id.to_string(), range.position()))
            .collect()
    }

    #[test]
    fn children_continue_at_their_parent_and_a_merged_range_at_the_earlier_parent() {
        let mut cursor = FeedCursor::new(FeedStart::Beginning);
        cursor.follow(&map(&[("0", "", "1F"), ("1", "1F", "FF")]));
        cursor.ranges[0].etag = Some("\"12\"".to_owned());
        cursor.ranges[1].etag = Some("\"7\"".to_owned());
        cursor.follow(&map(&[
            ("2", "", "10"),
            ("3", "10", "1F"),
            ("1", "1F", "FF"),
        ]));
        let split = [("2", 12), ("3", 12), ("1", 7)].map(|(id, at)| (id.to_owned(), at));
        assert_eq!(positions(&cursor), split);
        cursor.follow(&map(&[("4", "", "FF")]));
        assert_eq!(positions(&cursor), [("4".to_owned(), 7)]);
    }

    #[test]
    fn parts_follow_splits_and_merges_within_their_borders() {
        let mut cursor = FeedCursor::new(FeedStart::Beginning);
        cursor.follow(&map(&[("0", "", "1F"), ("1", "1F", "FF")]));
        cursor.ranges[0].etag = Some("\"12\"".to_owned());
        let mut parts = cursor.parts(9);
        let borders: Vec<String> = parts.iter().map(FeedCursor::borders).collect();
        assert_eq!(borders, ["-1F", "1F-FF"]);
        let first = &mut parts[0];
        first.follow(&map(&[
            ("2", "", "10"),
            ("3", "10", "1F"),
            ("1", "1F", "FF"),
        ]));
        let split = [("2", 12), ("3", 12)].map(|(id, at)| (id.to_owned(), at));
        assert_eq!(positions(first), split);
        assert_eq!(first.parts(1)[0].borders(), "-1F");
        let mut child = first.parts(9).remove(1);
        child.follow(&map(&[("4", "", "FF")]));
        assert_eq!(positions(&child), [("4".to_owned(), 12)]);
        assert_eq!(child.parts(9)[0].borders(), "10-1F");
        assert!(child.part.as_ref().unwrap().cuts(&child.ranges[0]));
    }
}
