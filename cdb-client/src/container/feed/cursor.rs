//! The read position of a change feed, and its division into parts.
//!
//! The position of a physical partition is the `ETag` of the last answer, which may be a 304. After a
//! split, each child continues at the position of its parent. After a merge, the parts of both parents
//! continue at their own positions, as in azure-sdk-for-python `change_feed_state.py` and
//! azure-cosmos-dotnet-v3 `RequestInvokerHandler.cs`.

use cdb_model::Timestamp;
use serde::{Deserialize, Serialize};

use crate::partitions::{EpkPart, PhysicalPartitionId, RangeMap};

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
    pub(super) part: Option<EpkPart>,
    pub(super) ranges: Vec<RangeCursor>,
}

/// The position in a part of a physical partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RangeCursor {
    pub(super) id: PhysicalPartitionId,
    #[serde(flatten)]
    pub(super) part: EpkPart,
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
    /// A part keeps its boundaries, also after its physical partition is merged with another one.
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
            Some(EpkPart { min, max }) => format!("{min}-{max}"),
        }
    }

    /// Returns the space from the start of `first` to the end of `last`.
    fn part_in(&self, first: &RangeCursor, last: &RangeCursor) -> EpkPart {
        let part = EpkPart {
            min: first.part.min.clone(),
            max: last.part.max.clone(),
        };
        let within = self.part.as_ref().and_then(|own| own.intersection(&part));
        within.unwrap_or(part)
    }

    /// Applies the ranges of `map`. Each part of a position keeps its cursor.
    pub(super) fn follow(&mut self, map: &RangeMap) {
        let fits = |old: &RangeCursor| {
            let mut ranges = map.iter();
            ranges.any(|range| {
                range.id == old.id && range.part.intersection(&old.part).as_ref() == Some(&old.part)
            })
        };
        if !self.ranges.is_empty() && self.ranges.iter().all(fits) {
            return;
        }
        let whole = self.part.clone().unwrap_or_else(EpkPart::whole);
        let mut old = std::mem::take(&mut self.ranges);
        if old.is_empty() {
            old.push(RangeCursor {
                id: PhysicalPartitionId::new(""),
                part: whole.clone(),
                etag: None,
            });
        }
        let parts = old.iter().flat_map(|old| {
            let part = old.part.intersection(&whole);
            map.iter().filter_map(move |range| {
                Some(RangeCursor {
                    id: range.id.clone(),
                    part: range.part.intersection(part.as_ref()?)?,
                    etag: old.etag.clone(),
                })
            })
        });
        self.ranges = parts.collect();
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

    fn positions(cursor: &FeedCursor) -> Vec<String> {
        let show = |range: &RangeCursor| {
            let RangeCursor { id, part, etag } = range;
            let etag = etag.as_deref().unwrap_or("none");
            format!("{id}: {}-{} {etag}", part.min, part.max)
        };
        cursor.ranges.iter().map(show).collect()
    }

    #[test]
    fn children_continue_at_their_parent_and_a_merged_range_at_each_parent() {
        let mut cursor = FeedCursor::new(FeedStart::Beginning);
        cursor.follow(&map(&[("0", "", "1F"), ("1", "1F", "FF")]));
        cursor.ranges[0].etag = Some("12".to_owned());
        cursor.ranges[1].etag = Some("7".to_owned());
        cursor.follow(&map(&[
            ("2", "", "10"),
            ("3", "10", "1F"),
            ("1", "1F", "FF"),
        ]));
        assert_eq!(
            positions(&cursor),
            ["2: -10 12", "3: 10-1F 12", "1: 1F-FF 7"]
        );
        cursor.follow(&map(&[("4", "", "FF")]));
        assert_eq!(
            positions(&cursor),
            ["4: -10 12", "4: 10-1F 12", "4: 1F-FF 7"]
        );
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
        cursor.ranges[0].etag = Some("12".to_owned());
        let mut parts = cursor.parts(9);
        let boundaries: Vec<String> = parts.iter().map(FeedCursor::boundaries).collect();
        assert_eq!(boundaries, ["-1F", "1F-FF"]);
        let first = &mut parts[0];
        first.follow(&map(&[
            ("2", "", "10"),
            ("3", "10", "1F"),
            ("1", "1F", "FF"),
        ]));
        assert_eq!(positions(first), ["2: -10 12", "3: 10-1F 12"]);
        assert_eq!(first.parts(1)[0].boundaries(), "-1F");
        let mut child = first.parts(9).remove(1);
        child.follow(&map(&[("4", "", "FF")]));
        assert_eq!(positions(&child), ["4: 10-1F 12"]);
        assert_eq!(child.parts(9)[0].boundaries(), "10-1F");
    }
}
