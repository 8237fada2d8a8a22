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
    #[serde(flatten)]
    part: FeedPart,
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

    /// Splits the cursor at the boundaries of the physical partitions known from the last read into
    /// at most `max_parts` cursors; their readers together read every change. Before the first read
    /// there is one part, the cursor itself.
    ///
    /// A part keeps its boundaries. After its physical partition is merged with another one, its
    /// reader receives the documents of both and omits those of the other one.
    pub fn parts(&self, max_parts: usize) -> Vec<Self> {
        if self.ranges.is_empty() {
            return vec![self.clone()];
        }
        let ranges_per_part = self.ranges.len().div_ceil(max_parts.max(1));
        let parts = self.ranges.chunks(ranges_per_part).map(|ranges| Self {
            start: self.start,
            part: Some(self.part_in(&ranges[0], &ranges[ranges.len() - 1])),
            ranges: ranges.to_vec(),
        });
        parts.collect()
    }

    /// Returns the boundaries in the hash space of partition keys, such as `05C1DFFFFFFFFC-FF`: unique
    /// among the parts of a cursor.
    pub fn boundaries(&self) -> String {
        match &self.part {
            None => "-FF".to_owned(),
            Some(FeedPart { min, max }) => format!("{min}-{max}"),
        }
    }

    /// Returns the intersection with the space from the start of `first` to the end of `last`.
    fn part_in(&self, first: &RangeCursor, last: &RangeCursor) -> FeedPart {
        let (mut min, mut max) = (first.part.min.clone(), last.part.max.clone());
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
                let parents = old.iter().filter(|old| old.part.overlaps(range));
                RangeCursor {
                    id: range.id.clone(),
                    part: FeedPart {
                        min: range.min.to_string(),
                        max: range.max.to_string(),
                    },
                    etag: parents
                        .min_by_key(|parent| parent.lsn())
                        .and_then(|parent| parent.etag.clone()),
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
    pub(super) fn cuts(&self, RangeCursor { part: range, .. }: &RangeCursor) -> bool {
        Epk::from_service(&range.min) < Epk::from_service(&self.min)
            || Epk::from_service(&self.max) < Epk::from_service(&range.max)
    }

    /// Returns whether a document with this partition key is in the part. A document whose key this
    /// client does not know or cannot hash may be in every part.
    pub(super) fn may_contain(&self, key: Option<&PartitionKey>) -> bool {
        let (min, max) = (Epk::from_service(&self.min), Epk::from_service(&self.max));
        // The ends of the hash space are the same in both versions of the hash.
        let ends = [Epk::from_service(""), Epk::from_service("FF")];
        let inner = [&min, &max].into_iter().filter(|end| !ends.contains(end));
        let version = HashVersion::of_boundaries(inner);
        let epk = key.and_then(|key| Epk::of(key, version));
        epk.is_none_or(|epk| min <= epk && epk < max)
    }
}

impl RangeCursor {
    /// Returns the number in the `ETag`; `None` before the first response.
    fn lsn(&self) -> Option<i64> {
        let etag = self.etag.as_deref()?;
        etag.trim_matches('"').parse().ok()
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

    fn lsns(cursor: &FeedCursor) -> Vec<(String, Option<i64>)> {
        cursor
            .ranges
            .iter()
            .map(|range| (range.id.to_string(), range.lsn()))
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
        let split = [("2", 12), ("3", 12), ("1", 7)].map(|(id, lsn)| (id.to_owned(), Some(lsn)));
        assert_eq!(lsns(&cursor), split);
        cursor.follow(&map(&[("4", "", "FF")]));
        assert_eq!(lsns(&cursor), [("4".to_owned(), Some(7))]);
    }

    #[test]
    fn a_cursor_is_its_only_part_before_the_first_read() {
        let cursor = FeedCursor::new(FeedStart::Now);
        assert_eq!(cursor.parts(9), [cursor]);
    }

    #[test]
    fn a_stored_cursor_names_the_boundaries_of_each_range() {
        let mut cursor = FeedCursor::new(FeedStart::Beginning);
        cursor.follow(&map(&[("0", "", "FF")]));
        let stored = serde_json::to_string(&cursor).unwrap();
        assert_eq!(
            stored,
            r#"{"start":"Beginning","ranges":[{"id":"0","min":"","max":"FF","etag":null}]}"#
        );
        assert_eq!(serde_json::from_str::<FeedCursor>(&stored).unwrap(), cursor);
    }

    #[test]
    fn parts_follow_splits_and_merges_within_their_boundaries() {
        let mut cursor = FeedCursor::new(FeedStart::Beginning);
        cursor.follow(&map(&[("0", "", "1F"), ("1", "1F", "FF")]));
        cursor.ranges[0].etag = Some("\"12\"".to_owned());
        let mut parts = cursor.parts(9);
        let boundaries: Vec<String> = parts.iter().map(FeedCursor::boundaries).collect();
        assert_eq!(boundaries, ["-1F", "1F-FF"]);
        let first = &mut parts[0];
        first.follow(&map(&[
            ("2", "", "10"),
            ("3", "10", "1F"),
            ("1", "1F", "FF"),
        ]));
        let split = [("2", 12), ("3", 12)].map(|(id, lsn)| (id.to_owned(), Some(lsn)));
        assert_eq!(lsns(first), split);
        assert_eq!(first.parts(1)[0].boundaries(), "-1F");
        let mut child = first.parts(9).remove(1);
        child.follow(&map(&[("4", "", "FF")]));
        assert_eq!(lsns(&child), [("4".to_owned(), Some(12))]);
        assert_eq!(child.parts(9)[0].boundaries(), "10-1F");
        assert!(child.part.as_ref().unwrap().cuts(&child.ranges[0]));
    }
}
