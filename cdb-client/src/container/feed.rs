//! The change feed: every created or changed document, in order within each physical partition.
//!
//! Latest-version mode: without deletions and intermediate versions, at least once. The client
//! reads by physical partition, because the feed of a partition key costs a scan. The cursor is the
//! `ETag` of the last answer, which may be a 304. After a split, each child continues from the
//! cursor of its parent.

use cdb_model::{
    Container, DecodeError, Stored, Timestamp, Unreadable, decode_any, partition_key_of,
};
use futures::future::try_join_all;
use http::Method;
use http::header::{ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::clock::http_date_of;
use crate::container::context::ContainerContext;
use crate::container::handle::ContainerClient;
use crate::epk::{Epk, HashVersion};
use crate::error::{Error, Result};
use crate::header;
use crate::operation::OperationKind;
use crate::ranges::{Range, RangeId, RangeMap};
use crate::request::Request;
use crate::session_token::SessionScope;

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
/// [`ContainerClient::resume_change_feed`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedCursor {
    start: FeedStart,
    /// The part of the hash space that is read; all of it by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    part: Option<FeedPart>,
    ranges: Vec<RangeCursor>,
}

/// A part of the hash space of partition keys, from `min` to before `max`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FeedPart {
    min: String,
    max: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RangeCursor {
    id: RangeId,
    min: String,
    max: String,
    etag: Option<String>,
}

/// A reader of the change feed.
///
/// ```
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// use cdb_client::{ContainerClient, FeedCursor, FeedStart};
/// use shop::Shop;
///
/// /// Prints all changes since `cursor`. The caller stores the returned cursor for the next run.
/// async fn print(shop: &ContainerClient<Shop>, cursor: Option<FeedCursor>) -> cdb_client::Result<FeedCursor> {
///     let mut feed = match cursor {
///         Some(cursor) => shop.resume_change_feed(cursor),
///         None => shop.change_feed(FeedStart::Beginning),
///     };
///     loop {
///         let changes = feed.next_changes().await?;
///         if changes.is_empty() {
///             return Ok(feed.cursor().clone());
///         }
///         println!("{changes:?}");
///     }
/// }
/// ```
#[derive(Debug)]
pub struct ChangeFeed<C> {
    container: ContainerClient<C>,
    cursor: FeedCursor,
    page_size: Option<u32>,
}

/// A row of the change feed.
#[derive(Debug)]
#[non_exhaustive]
pub struct FeedRow<C> {
    /// The log sequence number (`_lsn`) of the transaction that wrote the document; 0 if the service
    /// sends none. Ascends within a physical partition, also over splits. The documents of one
    /// batch have the same number.
    pub lsn: u64,
    /// The document, or the document that does not match its type.
    pub row: Result<Stored<C>, Unreadable>,
}

impl<C> FeedRow<C> {
    /// The service's time of the write, in whole seconds.
    pub fn timestamp(&self) -> Timestamp {
        match &self.row {
            Ok(stored) => stored.timestamp,
            Err(unreadable) => unreadable.timestamp(),
        }
    }
}

#[derive(Deserialize)]
struct Lsn {
    #[serde(rename = "_lsn", default)]
    lsn: u64,
}

#[derive(Deserialize)]
struct FeedPage {
    #[serde(rename = "Documents")]
    documents: Vec<Box<RawValue>>,
}

impl<C: Container> ContainerClient<C> {
    /// Reads the change feed from `start`.
    pub fn change_feed(&self, start: FeedStart) -> ChangeFeed<C> {
        self.resume_change_feed(FeedCursor::new(start))
    }

    /// Continues the change feed at `cursor`.
    pub fn resume_change_feed(&self, cursor: FeedCursor) -> ChangeFeed<C> {
        ChangeFeed {
            container: self.clone(),
            cursor,
            page_size: None,
        }
    }
}

impl<C: Container> ChangeFeed<C> {
    /// Limits the documents per physical partition and call.
    pub fn page_size(mut self, documents: u32) -> Self {
        self.page_size = Some(documents.max(1));
        self
    }

    /// Returns the container of this feed.
    pub fn container(&self) -> &ContainerClient<C> {
        &self.container
    }

    /// Returns the read position: after the documents that the last
    /// [`next_changes`](Self::next_changes) returned.
    pub fn cursor(&self) -> &FeedCursor {
        &self.cursor
    }

    /// Returns the next page of changes of each physical partition; empty when there are no new
    /// changes. Omits documents of types that `C` does not know.
    ///
    /// # Errors
    /// When the feed cannot be read, or a document does not match its type. The cursor does not
    /// move then.
    pub async fn next_changes(&mut self) -> Result<Vec<Stored<C>>> {
        let before = self.cursor.clone();
        let mut changes = Vec::new();
        for row in self.next_rows().await? {
            match row.row {
                Ok(change) => changes.push(change),
                Err(unreadable) => {
                    self.cursor = before;
                    return Err(Error::decode(unreadable.reason));
                }
            }
        }
        Ok(changes)
    }

    /// As [`next_changes`](Self::next_changes), but returns a document that does not match its type
    /// as an `Unreadable` row, and moves the cursor past it.
    ///
    /// # Errors
    /// When the feed cannot be read. The cursor does not move then.
    pub async fn next_rows(&mut self) -> Result<Vec<FeedRow<C>>> {
        let documents = self.next_documents().await?;
        Ok(known::<C>(&documents))
    }

    /// As [`next_changes`](Self::next_changes), but returns every document as JSON with the
    /// properties of the service, whatever its type. For tools that copy documents.
    ///
    /// # Errors
    /// When the feed cannot be read. The cursor does not move then.
    pub async fn next_documents(&mut self) -> Result<Vec<Box<RawValue>>> {
        let pages = self.next_pages().await?;
        let mut documents = Vec::new();
        for (range, mut page) in self.cursor.ranges.iter_mut().zip(pages) {
            range.etag = page.etag.or(range.etag.take());
            if let Some(part) = self.cursor.part.as_ref().filter(|part| part.cuts(range)) {
                page.documents
                    .retain(|json| part.may_contain::<C>(json.get()));
            }
            documents.extend(page.documents);
        }
        Ok(documents)
    }

    async fn next_pages(&mut self) -> Result<Vec<RangePage>> {
        let context = self.container.context.clone();
        let mut map = context.ranges().await?;
        self.cursor.follow(&map);
        loop {
            let (start, page_size) = (self.cursor.start, self.page_size);
            let requests = self
                .cursor
                .ranges
                .iter()
                .map(|range| range.next_page(&context, start, page_size));
            match try_join_all(requests).await {
                Err(error) if error.is_partition_split() => {
                    map = context.ranges_after(&map).await?;
                    self.cursor.follow(&map);
                }
                result => return result,
            }
        }
    }
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
    fn follow(&mut self, map: &RangeMap) {
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
    fn cuts(&self, range: &RangeCursor) -> bool {
        Epk::from_service(&range.min) < Epk::from_service(&self.min)
            || Epk::from_service(&self.max) < Epk::from_service(&range.max)
    }

    /// Returns whether a document is in the part. A document whose key this client cannot hash may
    /// be in every part.
    fn may_contain<C: Container>(&self, json: &str) -> bool {
        let (min, max) = (Epk::from_service(&self.min), Epk::from_service(&self.max));
        let ends = [Epk::from_service(""), Epk::from_service("FF")];
        let borders = [&min, &max].into_iter();
        let version = HashVersion::of_boundaries(borders.filter(|border| !ends.contains(border)));
        let epk = partition_key_of::<C>(json).and_then(|key| Epk::of(&key, version));
        epk.is_none_or(|epk| min <= epk && epk < max)
    }
}

/// One page of a range.
struct RangePage {
    documents: Vec<Box<RawValue>>,
    etag: Option<String>,
}

impl RangeCursor {
    /// Returns the number in the ETag; -1 before the first answer.
    fn position(&self) -> i64 {
        self.etag
            .as_deref()
            .and_then(|etag| etag.trim_matches('"').parse().ok())
            .unwrap_or(-1)
    }

    /// Returns the next page of this range. Skips an empty 200, after which the feed may continue.
    async fn next_page(
        &self,
        context: &ContainerContext,
        start: FeedStart,
        page_size: Option<u32>,
    ) -> Result<RangePage> {
        let mut etag = self.etag.clone();
        loop {
            let request = self.request(context, start, etag.as_deref(), page_size)?;
            let response = context.send(&request).await?;
            let next = response.header(&ETAG).map(str::to_owned);
            if response.status.code == 304 {
                return Ok(RangePage {
                    documents: Vec::new(),
                    etag: next.or(etag),
                });
            }
            let next =
                next.ok_or_else(|| response.unusable(Error::protocol("change feed has no ETag")))?;
            let page: FeedPage = response.json()?;
            // The feed has ended if the cursor does not move. The first answer decides where
            // `Now` is: a caller that fails to process later changes can return to it.
            let is_now = etag.is_none() && start == FeedStart::Now;
            if !page.documents.is_empty() || etag.as_ref() == Some(&next) || is_now {
                return Ok(RangePage {
                    documents: page.documents,
                    etag: Some(next),
                });
            }
            etag = Some(next);
        }
    }

    fn request(
        &self,
        context: &ContainerContext,
        start: FeedStart,
        etag: Option<&str>,
        page_size: Option<u32>,
    ) -> Result<Request> {
        let mut request = Request::new(
            OperationKind::ChangeFeed,
            Method::GET,
            context.resource.items(),
        )
        .header(header::A_IM, "Incremental Feed")
        .session(SessionScope::Range(self.id.to_string()))
        .in_range(self.id.as_str())?;
        request = match page_size {
            Some(size) => request.header_value(header::MAX_ITEMS, &size.to_string())?,
            None => request.header(header::MAX_ITEMS, "-1"),
        };
        // The start time accompanies every cursor: after a merge, the feed may contain older
        // documents.
        if let FeedStart::Since(time) = start {
            request = request.header_value(IF_MODIFIED_SINCE, &http_date_of(time))?;
        }
        match (etag, start) {
            (Some(etag), _) => request.header_value(IF_NONE_MATCH, etag),
            (None, FeedStart::Now) => Ok(request.header(IF_NONE_MATCH, "*")),
            (None, _) => Ok(request),
        }
    }
}

fn known<C: Container>(documents: &[Box<RawValue>]) -> Vec<FeedRow<C>> {
    let decoded = documents.iter().filter_map(|json| {
        let row = match decode_any::<C>(json.get()) {
            Err(DecodeError::UnknownType { .. }) => return None,
            decoded => decoded.map_err(|reason| Unreadable::new::<C>(json.get(), reason)),
        };
        let lsn = serde_json::from_str(json.get()).map_or(0, |Lsn { lsn }| lsn);
        Some(FeedRow { lsn, row })
    });
    decoded.collect()
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
