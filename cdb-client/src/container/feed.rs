//! The change feed: every document that was created or changed, in the order of each physical partition.
//!
//! Latest-version mode: no deletions, no versions in between, at least once. Read by physical partition, since the
//! feed of a partition key costs a scan. The cursor is the `ETag` of the last answer, also of a 304. After a split each
//! child goes on from the parent's cursor.

use cdb_model::{Container, DecodeError, Stored, Timestamp, Unreadable, decode_any};
use futures::future::try_join_all;
use http::Method;
use http::header::{ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::clock::http_date_of;
use crate::container::context::ContainerContext;
use crate::container::handle::ContainerClient;
use crate::epk::Epk;
use crate::error::{Error, Result};
use crate::header;
use crate::operation::OperationKind;
use crate::ranges::{RangeId, RangeMap};
use crate::request::Request;
use crate::session_token::SessionScope;

/// Where a change feed begins.
///
/// ```
/// use cdb_client::FeedStart;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::order;
/// # shop::with_shop(async |shop| {
///
/// shop.create(&order(1)).await?;
/// let mut news = shop.change_feed(FeedStart::Now);
/// assert!(news.next_changes().await?.is_empty()); // what was there before is none
/// shop.create(&order(2)).await?;
/// assert_eq!(news.next_changes().await?.len(), 1);
/// # Ok(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FeedStart {
    /// With the oldest document that still exists.
    Beginning,
    /// With what changes from now on.
    Now,
    /// With what changed since then, exact to about five seconds.
    Since(Timestamp),
}

/// How far a change feed was read. Can be stored and given back to [`ContainerClient::resume_change_feed`].
///
/// ```
/// use cdb_client::{FeedCursor, FeedStart};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::order;
/// # shop::with_shop(async |shop| {
///
/// shop.create(&order(1)).await?;
/// let mut feed = shop.change_feed(FeedStart::Beginning);
/// let done: FeedCursor = feed.cursor().clone(); // stored when all before it is dealt with
/// let lost = feed.next_changes().await?; // … and the program ends
/// let again = shop.resume_change_feed(done).next_changes().await?;
/// assert_eq!((lost.len(), again.len()), (1, 1)); // at least once
/// # Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FeedCursor {
    start: FeedStart,
    ranges: Vec<RangeCursor>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct RangeCursor {
    id: RangeId,
    min: String,
    max: String,
    etag: Option<String>,
}

/// A change feed being read.
///
/// ```
/// use cdb_client::FeedStart;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::order;
/// # shop::with_shop(async |shop| {
///
/// let mut feed = shop.change_feed(FeedStart::Beginning);
/// shop.create(&order(1)).await?;
/// let mut changes = feed.next_changes().await?;
/// assert_eq!(changes.len(), 1);
///
/// let kept = serde_json::to_string(feed.cursor())?; // across restarts
/// let mut resumed = shop.resume_change_feed(serde_json::from_str(&kept)?);
/// changes = resumed.next_changes().await?;
/// assert!(changes.is_empty());
/// # Ok(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct ChangeFeed<C> {
    container: ContainerClient<C>,
    cursor: FeedCursor,
    page_size: Option<u32>,
}

#[derive(Deserialize)]
struct FeedPage<'a> {
    #[serde(borrow, rename = "Documents")]
    documents: Vec<&'a RawValue>,
}

impl<C: Container> ContainerClient<C> {
    /// Reads the change feed from `start`.
    pub fn change_feed(&self, start: FeedStart) -> ChangeFeed<C> {
        self.resume_change_feed(FeedCursor {
            start,
            ranges: Vec::new(),
        })
    }

    /// Reads the change feed on from where it was left.
    pub fn resume_change_feed(&self, cursor: FeedCursor) -> ChangeFeed<C> {
        ChangeFeed {
            container: self.clone(),
            cursor,
            page_size: None,
        }
    }
}

impl<C: Container> ChangeFeed<C> {
    /// Asks for at most this many documents per physical partition and call.
    pub fn page_size(mut self, documents: u32) -> Self {
        self.page_size = Some(documents.max(1));
        self
    }

    /// The container whose changes these are.
    pub fn container(&self) -> &ContainerClient<C> {
        &self.container
    }

    /// How far it was read: behind what the last [`next_changes`](Self::next_changes) returned.
    pub fn cursor(&self) -> &FeedCursor {
        &self.cursor
    }

    /// The next changes of all physical partitions, one page of each; empty when there is nothing new. Documents of
    /// types that `C` does not know are left out.
    ///
    /// # Errors
    /// When the feed cannot be read, or a document does not fit its type. The cursor stays where it was.
    pub async fn next_changes(&mut self) -> Result<Vec<Stored<C>>> {
        let before = self.cursor.clone();
        let rows: Result<_, Unreadable> = self.next_rows().await?.into_iter().collect();
        rows.map_err(|unreadable| {
            self.cursor = before;
            Error::decode(unreadable.reason)
        })
    }

    /// [`next_changes`](Self::next_changes) row by row: a document that does not fit its type is one among the others,
    /// and the cursor goes on behind it.
    ///
    /// # Errors
    /// When the feed cannot be read. The cursor stays where it was.
    pub async fn next_rows(&mut self) -> Result<Vec<Result<Stored<C>, Unreadable>>> {
        let pages = self.next_pages().await?;
        let mut rows = Vec::new();
        for (range, page) in self.cursor.ranges.iter_mut().zip(pages) {
            range.etag = page.etag.or(range.etag.take());
            rows.extend(page.documents);
        }
        Ok(rows)
    }

    async fn next_pages(&mut self) -> Result<Vec<RangePage<C>>> {
        let context = self.container.context.clone();
        let mut map = context.ranges().await?;
        self.cursor.follow(&map);
        loop {
            let (start, page_size) = (self.cursor.start, self.page_size);
            let requests = self
                .cursor
                .ranges
                .iter()
                .map(|range| range.next_page::<C>(&context, start, page_size));
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
    /// Takes over the ranges of `map`. Each begins where the ranges that it was made from had been read to; where two
    /// were merged, at the earlier of both: rather twice than never.
    fn follow(&mut self, map: &RangeMap) {
        let unchanged = self.ranges.len() == map.iter().count()
            && self
                .ranges
                .iter()
                .zip(map.iter())
                .all(|(old, new)| old.id == new.id);
        if unchanged {
            return;
        }
        let old = std::mem::take(&mut self.ranges);
        self.ranges = map
            .iter()
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

/// What a range answered.
struct RangePage<C> {
    documents: Vec<Result<Stored<C>, Unreadable>>,
    etag: Option<String>,
}

impl RangeCursor {
    /// The number in the ETag, -1 before the first.
    fn position(&self) -> i64 {
        self.etag
            .as_deref()
            .and_then(|etag| etag.trim_matches('"').parse().ok())
            .unwrap_or(-1)
    }

    /// The next page with documents of this range. An empty 200 only says that the service looked without finding.
    async fn next_page<C: Container>(
        &self,
        context: &ContainerContext,
        start: FeedStart,
        page_size: Option<u32>,
    ) -> Result<RangePage<C>> {
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
            let next = next
                .ok_or_else(|| response.unusable(Error::protocol("change feed names no cursor")))?;
            let page: FeedPage<'_> = response.json()?;
            // One whose cursor stands still has not looked any further.
            if !page.documents.is_empty() || etag.as_ref() == Some(&next) {
                return Ok(RangePage {
                    documents: known::<C>(&page.documents),
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
        // The start time goes along with every cursor: after a merge, older documents may come up.
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

fn known<C: Container>(documents: &[&RawValue]) -> Vec<Result<Stored<C>, Unreadable>> {
    let decoded = documents
        .iter()
        .map(|json| match decode_any::<C>(json.get()) {
            Err(DecodeError::UnknownType { .. }) => None,
            decoded => Some(decoded.map_err(|reason| Unreadable::new::<C>(json.get(), reason))),
        });
    decoded.flatten().collect()
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
    fn children_go_on_from_their_parent_and_a_merged_range_from_the_earlier() {
        let mut cursor = FeedCursor {
            start: FeedStart::Beginning,
            ranges: Vec::new(),
        };
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
}
