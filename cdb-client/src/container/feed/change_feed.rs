//! The change feed: every created or changed document, in order within each physical partition, at
//! least once; in the mode of all versions also intermediate versions and deletions. The client reads
//! by physical partition, because the feed of a partition key costs a scan.

use std::marker::PhantomData;

use cdb_model::{Container, Stored};
use derive_where::derive_where;
use futures::StreamExt as _;
use futures::future::try_join_all;
use futures::stream::{self, BoxStream};
use http::Method;
use http::header::{ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::clock::http_date_of;
use crate::container::context::ContainerContext;
use crate::container::feed::cursor::{FeedCursor, FeedStart, RangeCursor};
use crate::container::feed::row::{ChangeRow, FeedRow, VersionRow};
use crate::container::handle::ContainerClient;
use crate::error::{Error, RequestKind, Result};
use crate::partitions::{EpkPart, SessionScope};
use crate::protocol::{Request, header};

/// A reader of the change feed, whose rows `R` tell the mode: [`FeedRow`] for the latest versions of
/// documents, [`VersionRow`] for all versions and deletions.
///
/// ```
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// use cdb_client::ContainerClient;
/// use cdb_client::feed::{FeedCursor, FeedStart};
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
#[derive_where(Debug)]
pub struct ChangeFeed<C, R = FeedRow<C>> {
    container: ContainerClient<C>,
    cursor: FeedCursor,
    page_size: Option<u32>,
    rows: PhantomData<fn() -> R>,
}

/// One page of each physical partition.
#[derive(Debug)]
#[non_exhaustive]
pub struct FeedPage<R> {
    /// The changes, without documents of types that the container type does not know.
    pub rows: Vec<R>,
    /// Whether there were no new changes, of any type. A page without rows may be followed by changes
    /// if this is `false`.
    pub is_end: bool,
}

#[derive(Deserialize)]
struct Answer {
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
        self.resume_feed(cursor)
    }

    /// Reads all versions and deletions from the next change on. Older changes are read with
    /// [`resume_feed`](Self::resume_feed) at the position of an earlier reader, as long as the account
    /// keeps its continuous backups. The account needs these backups and the feature "All versions and
    /// deletes".
    ///
    /// ```
    /// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
    /// use cdb_client::feed::{Change, ChangeFeed, VersionRow};
    /// use cdb_model::DocumentKey;
    /// use shop::{OrderKey, Shop};
    ///
    /// async fn print(feed: &mut ChangeFeed<Shop, VersionRow<Shop>>) -> cdb_client::Result<()> {
    ///     for row in feed.next_rows().await? {
    ///         match row.change {
    ///             Change::Deleted { id, expired, .. } => match OrderKey::parse(&id) {
    ///                 Ok(order) => println!("order {} was deleted, expired: {expired}", order.number),
    ///                 Err(_) => println!("{id} was deleted"),
    ///             },
    ///             other => println!("{other:?}"),
    ///         }
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn versions_feed(&self) -> ChangeFeed<C, VersionRow<C>> {
        self.resume_feed(FeedCursor::new(FeedStart::Now))
    }

    /// Continues a change feed of either mode at `cursor`, which a feed of the same mode has returned.
    pub fn resume_feed<R: ChangeRow<C>>(&self, cursor: FeedCursor) -> ChangeFeed<C, R> {
        ChangeFeed {
            container: self.clone(),
            cursor,
            page_size: None,
            rows: PhantomData,
        }
    }
}

impl<C: Container, R: ChangeRow<C>> ChangeFeed<C, R> {
    /// Limits the documents per physical partition and call.
    pub fn page_size(mut self, documents: u32) -> Self {
        self.page_size = Some(documents.max(1));
        self
    }

    /// Returns the container of this feed.
    pub fn container(&self) -> &ContainerClient<C> {
        &self.container
    }

    /// Returns the read position: after the rows that the last [`next_rows`](Self::next_rows)
    /// returned.
    pub fn cursor(&self) -> &FeedCursor {
        &self.cursor
    }

    /// Returns the next changes, of one page of each physical partition; empty when there are no new
    /// changes. Omits documents of types that `C` does not know. A document that does not match its
    /// type is an `Unreadable` row.
    ///
    /// # Errors
    /// When the feed cannot be read. The cursor does not move past a change then.
    pub async fn next_rows(&mut self) -> Result<Vec<R>> {
        loop {
            let page = self.next_page().await?;
            if page.is_end || !page.rows.is_empty() {
                return Ok(page.rows);
            }
        }
    }

    /// Returns a stream of what [`next_rows`](Self::next_rows) returns, up to the present: it ends
    /// when there are no new changes, or after an error. The cursor moves with each item.
    pub fn stream(&mut self) -> BoxStream<'_, Result<Vec<R>>> {
        stream::try_unfold(self, |feed| async move {
            let rows = feed.next_rows().await?;
            Ok((!rows.is_empty()).then_some((rows, feed)))
        })
        .boxed()
    }

    /// Reads one page, as [`next_rows`](Self::next_rows) does. Returns it also without rows, when all
    /// of its documents are of types that `C` does not know: for readers that store the cursor.
    ///
    /// # Errors
    /// When the feed cannot be read. The cursor does not move then.
    pub async fn next_page(&mut self) -> Result<FeedPage<R>> {
        let before = self.cursor.clone();
        let (documents, is_end) = self.read_page().await?;
        let rows = documents.iter().map(|json| R::read(json.get()));
        let rows: Result<Vec<Option<R>>> = rows.collect();
        match rows {
            Ok(rows) => Ok(FeedPage {
                rows: rows.into_iter().flatten().collect(),
                is_end,
            }),
            Err(error) => {
                self.cursor = before;
                Err(error)
            }
        }
    }

    /// As [`next_rows`](Self::next_rows), but returns every row as JSON with the
    /// properties of the service, whatever its type. For tools that copy documents.
    ///
    /// # Errors
    /// When the feed cannot be read. The cursor does not move past a document of its part then.
    pub async fn next_documents(&mut self) -> Result<Vec<Box<RawValue>>> {
        loop {
            let (documents, is_end) = self.read_page().await?;
            if is_end || !documents.is_empty() {
                return Ok(documents);
            }
        }
    }

    /// Returns the documents of a page, and whether the page has none.
    async fn read_page(&mut self) -> Result<(Vec<Box<RawValue>>, bool)> {
        let pages = self.next_pages().await?;
        let is_end = pages.iter().all(|page| page.documents.is_empty());
        let mut documents = Vec::new();
        for (range, page) in self.cursor.ranges.iter_mut().zip(pages) {
            range.etag = page.etag.or(range.etag.take());
            documents.extend(page.documents);
        }
        Ok((documents, is_end))
    }

    async fn next_pages(&mut self) -> Result<Vec<RangePage>> {
        let context = self.container.context.clone();
        let mut map = context.physical_partitions().await?;
        self.cursor.follow(&map);
        let (begun, deadline) = (Instant::now(), context.pipeline.retry_config().deadline);
        loop {
            let form = FeedForm {
                all_versions: R::ALL_VERSIONS,
                start: self.cursor.start,
                page_size: self.page_size,
            };
            let requests = self.cursor.ranges.iter().map(|range| {
                let bounds = map.bounds(&range.id, &range.part);
                range.next_page(&context, form, bounds)
            });
            match try_join_all(requests).await {
                // A listing may be older than the split.
                Err(error) if error.is_partition_split() && begun.elapsed() < deadline => {
                    map = context.ranges_after(&map).await?;
                    self.cursor.follow(&map);
                }
                result => return result,
            }
        }
    }
}

impl<C: Container> ChangeFeed<C> {
    /// Returns the next changes, of one page of each physical partition; empty when there are no new
    /// changes. Omits documents of types that `C` does not know.
    ///
    /// # Errors
    /// When the feed cannot be read, or a document does not match its type. The cursor does not
    /// move past a change then.
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
}

/// What all requests of a feed ask for.
#[derive(Clone, Copy)]
struct FeedForm {
    all_versions: bool,
    start: FeedStart,
    page_size: Option<u32>,
}

/// One page of a range.
struct RangePage {
    documents: Vec<Box<RawValue>>,
    etag: Option<String>,
}

impl RangeCursor {
    /// Returns the next page of this range. Skips an empty 200, after which the feed may continue.
    async fn next_page(
        &self,
        context: &ContainerContext,
        form: FeedForm,
        bounds: Option<EpkPart>,
    ) -> Result<RangePage> {
        let mut etag = self.etag.clone();
        loop {
            let request = self.request(context, form, etag.as_deref())?;
            let request = request.in_part(&self.id, bounds.as_ref())?;
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
            let page: Answer = response.json()?;
            // The feed has ended if the cursor does not move. The first answer decides where
            // `Now` is: a caller that fails to process later changes can return to it.
            let is_now = etag.is_none() && form.start == FeedStart::Now;
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
        form: FeedForm,
        etag: Option<&str>,
    ) -> Result<Request> {
        let mut request = Request::new(
            RequestKind::ChangeFeed,
            Method::GET,
            context.resource.items(),
        )
        .session(SessionScope::Range(self.id.to_string()));
        request = if form.all_versions {
            request
                .header(header::A_IM, "Full-Fidelity Feed")
                .header(header::FEED_FORM, "2021-09-15")
        } else {
            request.header(header::A_IM, "Incremental Feed")
        };
        request = match form.page_size {
            Some(size) => request.header_value(header::MAX_ITEMS, &size.to_string())?,
            None => request.header(header::MAX_ITEMS, "-1"),
        };
        // The start time accompanies every cursor: after a merge, the feed may contain older
        // documents.
        if let FeedStart::Since(time) = form.start {
            request = request.header_value(IF_MODIFIED_SINCE, &http_date_of(time))?;
        }
        match (etag, form.start) {
            (Some(etag), _) => request.header_value(IF_NONE_MATCH, etag),
            (None, FeedStart::Now) => Ok(request.header(IF_NONE_MATCH, "*")),
            (None, _) => Ok(request),
        }
    }
}
