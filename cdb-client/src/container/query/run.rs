//! Typed queries: all rows, the first row, or pages.

use std::sync::Arc;

use cdb_model::Container;
use cdb_model::query::statement::{Fetch, RowByRow, RowForm, Scope, SingleRow, Statement};
use cdb_model::query::{Explain, Explanation};
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::value::RawValue;

use crate::container::handle::ContainerClient;
use crate::container::query::merge::Merge;
use crate::container::query::page::{Continuation, Origin, Page};
use crate::container::query::reach::Reach;
use crate::container::query::source::{QueryRequest, Target};
use crate::error::{Error, Result};
use crate::partitions::{EpkPart, PhysicalPartitionId, RangeMap};

/// How often a query starts over because partitions split during it.
pub(super) const MAX_RESTARTS: u32 = 4;

/// No limit on rows.
const ALL: usize = usize::MAX;

/// A query to execute. Its asynchronous methods send the requests.
#[derive(Debug)]
#[must_use = "`all`, `first`, `stream` or `pages` executes the query"]
pub struct QueryRun<'a, C: Container, Q> {
    container: &'a ContainerClient<C>,
    query: Q,
    page_size: Option<u32>,
    range: Option<PhysicalPartitionId>,
    skip_unavailable: bool,
}

/// The rows of the physical partitions that answered.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AvailableRows<Row> {
    /// The rows, in order.
    pub rows: Vec<Row>,
    /// Whether all physical partitions answered.
    pub is_complete: bool,
}

impl<C: Container> ContainerClient<C> {
    /// Prepares a query. Its scope is one logical partition or all partitions.
    pub fn query<Q: Fetch<C>>(&self, query: Q) -> QueryRun<'_, C, Q> {
        QueryRun {
            container: self,
            query,
            page_size: None,
            range: None,
            skip_unavailable: false,
        }
    }
}

impl<'a, C: Container, Q: Fetch<C>> QueryRun<'a, C, Q> {
    /// Limits the rows per request and physical partition. Does not limit the result.
    pub fn page_size(mut self, rows: u32) -> Self {
        self.page_size = Some(rows.max(1));
        self
    }

    /// Queries one physical partition instead of all. The query fails with
    /// [`is_partition_split`](Error::is_partition_split) when the partition no longer exists;
    /// [`ContainerClient::physical_partitions`] then returns the new ones. Has no effect on a query in one
    /// logical partition, or in those of a prefix.
    pub fn in_physical_partition(mut self, range: &PhysicalPartitionId) -> Self {
        self.range = Some(range.clone());
        self
    }

    /// Leaves out physical partitions that do not answer, instead of failing or waiting for them:
    /// their rows are missing. The query still fails when no partition answers, or the
    /// [one that it names](Self::in_physical_partition). Has no effect on a query in one logical
    /// partition.
    pub fn skip_unavailable(mut self) -> Self {
        self.skip_unavailable = true;
        self
    }

    /// Returns a document that does not match its type as an [`Unreadable`](cdb_model::stored::Unreadable)
    /// row, instead of failing the query.
    pub fn row_by_row(self) -> QueryRun<'a, C, RowByRow<Q>> {
        QueryRun {
            container: self.container,
            query: RowByRow(self.query),
            page_size: self.page_size,
            range: self.range,
            skip_unavailable: self.skip_unavailable,
        }
    }

    /// Returns which indexes of the model serve the query. Sends nothing.
    pub fn explain(&self) -> Explanation
    where
        Q: Explain<C>,
    {
        self.query.explain(&C::definition().indexing_policy)
    }

    /// Returns all rows, in order.
    ///
    /// # Errors
    /// When the service refuses the query or a row does not match its type.
    pub async fn all(self) -> Result<Vec<Q::Row>> {
        let all = over_splits(self.restarts(), || self.read_available());
        Ok(all.await?.rows)
    }

    async fn read_available(&self) -> Result<AvailableRows<Q::Row>> {
        let mut merge = self.merge().await?;
        let mut rows = Vec::new();
        while let Some(page) = self.refresh_stale(merge.rows(self, ALL).await).await? {
            rows.extend(page);
        }
        let is_complete = merge.merge.left_out == 0;
        Ok(AvailableRows { rows, is_complete })
    }

    /// Returns the rows of all physical partitions that answer, and whether all did.
    ///
    /// # Errors
    /// When the service refuses the query, a row does not match its type, or no partition answers.
    pub async fn all_available(mut self) -> Result<AvailableRows<Q::Row>> {
        self.skip_unavailable = true;
        over_splits(self.restarts(), || self.read_available()).await
    }

    /// Returns the first row, or `None`. Requests one row only, unless the query aggregates.
    ///
    /// # Errors
    /// When the service refuses the query or the row does not match its type.
    pub async fn first(mut self) -> Result<Option<Q::Row>> {
        self.default_page_size(1)?;
        over_splits(self.restarts(), || self.read_first()).await
    }

    /// Requests this number of rows at once, unless the caller has chosen another. The service
    /// chooses for aggregates, because one row needs all their pages.
    fn default_page_size(&mut self, rows: u32) -> Result<()> {
        if !matches!(self.statement()?.form, RowForm::Aggregates { .. }) {
            self.page_size.get_or_insert(rows);
        }
        Ok(())
    }

    async fn read_first(&self) -> Result<Option<Q::Row>> {
        let mut merge = self.merge().await?;
        let page = self.refresh_stale(merge.rows(self, 1).await).await?;
        Ok(page.and_then(|rows| rows.into_iter().next()))
    }

    /// Returns the row of a query that always has one row: a count, a sum, other aggregates.
    ///
    /// # Errors
    /// When the service refuses the query or the row does not match its type.
    pub async fn one(self) -> Result<Q::Row>
    where
        Q: SingleRow,
    {
        let row = self.all().await?.pop();
        row.ok_or_else(|| Error::protocol("aggregate has no row"))
    }

    /// Returns the rows as a stream, which reads page by page. An error ends it; after
    /// [`is_partition_split`](Error::is_partition_split), start over.
    ///
    /// ```
    /// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
    /// use cdb_client::ContainerClient;
    /// use cdb_model::Query;
    /// use futures::TryStreamExt as _;
    /// use shop::{Order, Shop};
    ///
    /// async fn print(shop: &ContainerClient<Shop>) -> cdb_client::Result<()> {
    ///     let mut orders = shop.query(Query::<Order>::across_partitions()).stream();
    ///     while let Some(order) = orders.try_next().await? {
    ///         println!("{}", order.number);
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn stream(self) -> BoxStream<'a, Result<Q::Row>>
    where
        Q: 'a,
    {
        let pages = self.pages().stream();
        let rows = pages.map_ok(|page| stream::iter(page.into_iter().map(Ok)));
        rows.try_flatten().boxed()
    }

    /// Reads page by page. A page ends where the service ends it, or where the order requires
    /// another partition's next page.
    pub fn pages(self) -> Pages<'a, C, Q> {
        Pages {
            run: self,
            reading: None,
        }
    }

    /// Returns one page of exactly `rows` rows, or fewer at the end, from the start or from the end
    /// of another page. Another process can request the next page later, with [`Page::next`]. Each
    /// page shows the container at its own time, so a row whose sort key changes between two pages
    /// may appear twice or not at all.
    ///
    /// Across several physical partitions, a sorted page reads `rows` rows of each, and the next
    /// page counts the rows that were returned: when returned rows are deleted between two pages,
    /// others may not appear. A query without an order has no such limit. Aggregates, groups and
    /// distinct values are one page, with all rows.
    ///
    /// ```
    /// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
    /// use cdb_client::{ContainerClient, Page};
    /// use cdb_model::{Query, Stored};
    /// use shop::{Order, Shop};
    ///
    /// /// Answers a web request; `after` is `page.next` of the previous page, as text in the URL.
    /// async fn orders(shop: &ContainerClient<Shop>, after: Option<&str>) -> cdb_client::Result<Page<Stored<Order>>> {
    ///     let continuation = after.map(str::parse).transpose()?;
    ///     let orders = Query::<Order>::across_partitions();
    ///     shop.query(orders).page(20, continuation.as_ref()).await
    /// }
    /// ```
    ///
    /// # Errors
    /// When the service refuses the query, a row does not match its type, `from` belongs to
    /// another query, container or physical partition, or with [`skip_unavailable`](Self::skip_unavailable); [`is_partition_split`](Error::is_partition_split) when a partition was split
    /// since `from`: start over.
    pub async fn page(mut self, rows: usize, from: Option<&Continuation>) -> Result<Page<Q::Row>> {
        if self.skip_unavailable {
            return Err(Error::configuration(
                "the next pages would lack the partitions that did not answer; use `all_available`",
            ));
        }
        let size = u32::try_from(rows).unwrap_or(u32::MAX).max(1);
        self.default_page_size(size)?;
        let restarts = from.map_or(self.restarts(), |_| 0);
        over_splits(restarts, || self.read_page(rows, from)).await
    }

    async fn read_page(&self, rows: usize, from: Option<&Continuation>) -> Result<Page<Q::Row>> {
        let mut reading = match from {
            None => self.merge().await?,
            Some(continuation) => self.resumed(continuation).await?,
        };
        reading.merge.one_at_a_time = true;
        let mut page = Vec::new();
        while page.len() < rows {
            let most = rows - page.len();
            match self.refresh_stale(reading.rows(self, most).await).await? {
                Some(more) => page.extend(more),
                None => break,
            }
        }
        let progress = reading.merge.progress();
        let statement = self.statement()?;
        let of = self.origin();
        let next = progress.map(|progress| Continuation::new(&statement, of, &progress));
        Ok(Page {
            rows: page,
            next: next.transpose()?,
        })
    }

    async fn resumed(&self, continuation: &Continuation) -> Result<Reading> {
        let statement = self.statement()?;
        let another = || {
            Error::configuration(
                "continuation belongs to another query, container or physical partition; start over without it",
            )
        };
        let progress = continuation.progress(&statement, self.origin())?;
        let progress = progress.ok_or_else(another)?;
        let reach = self.reach(&statement.scope).await?;
        let request =
            QueryRequest::new(&statement, self.page_size, self.container.latest_committed)?;
        let merge = Merge::resumed(statement, request, progress, &reach).ok_or_else(another)?;
        Ok(Reading {
            merge,
            map: reach.into_map(),
        })
    }

    fn origin(&self) -> Origin<'_> {
        Origin {
            container: &self.container.context.resource.link,
            range: self.range.as_ref(),
        }
    }

    /// How often a read starts over after a split: never in a range that the caller has chosen.
    fn restarts(&self) -> u32 {
        self.range.as_ref().map_or(MAX_RESTARTS, |_| 0)
    }

    /// Passes a result on. Lists the ranges again when a range no longer exists.
    async fn refresh_stale<T>(&self, result: Result<T, Stale>) -> Result<T> {
        match result {
            Ok(rows) => Ok(rows),
            Err(Stale { error, map }) => {
                if let (true, Some(map)) = (error.is_partition_split(), map) {
                    self.container.context.ranges_after(&map).await?;
                }
                Err(error)
            }
        }
    }

    fn statement(&self) -> Result<Statement> {
        self.query.statement().map_err(Error::encode)
    }

    async fn merge(&self) -> Result<Reading> {
        let statement = self.statement()?;
        let reach = self.reach(&statement.scope).await?;
        let (targets, left_out) = self.targets(&statement.scope, &reach);
        let mut request =
            QueryRequest::new(&statement, self.page_size, self.container.latest_committed)?;
        request.in_time = self.skip_unavailable;
        request.leaves_out = self.skip_unavailable && self.range.is_none();
        let mut merge = Merge::new(statement, request, targets);
        merge.left_out = left_out;
        Ok(Reading {
            merge,
            map: reach.into_map(),
        })
    }

    /// Returns the targets to read, and how many are left out because they do not answer.
    fn targets(&self, scope: &Scope, reach: &Reach) -> (Vec<Target>, usize) {
        let ranges = match (reach, &self.range) {
            (Reach::Partition(_), _) => return (reach.target(None).into_iter().collect(), 0),
            (_, Some(range)) if *scope == Scope::AllPartitions => vec![range.clone()],
            _ => reach.ranges(),
        };
        let count = ranges.len();
        let ranges = if self.skip_unavailable && self.range.is_none() {
            self.container.health().available(ranges)
        } else {
            ranges
        };
        let left_out = count - ranges.len();
        let targets = ranges
            .into_iter()
            .filter_map(|range| reach.target(Some(range)));
        (targets.collect(), left_out)
    }

    /// Returns the partitions that the query may read.
    ///
    /// # Errors
    /// When a partition key has not all levels or is too long, or the physical partitions cannot be listed.
    async fn reach(&self, scope: &Scope) -> Result<Reach> {
        let part = match scope {
            Scope::Prefix(key) if key.values().len() < C::PARTITION_KEY.len() => {
                key.check_length().map_err(Error::key_too_long)?;
                let part = EpkPart::of_prefix(key);
                part.ok_or_else(|| Error::configuration(format!("prefix {key} cannot be hashed")))?
            }
            Scope::Partition(key) | Scope::Prefix(key) => {
                ContainerClient::<C>::check_key(key)?;
                return Ok(Reach::Partition(key.clone()));
            }
            Scope::AllPartitions => EpkPart::whole(),
        };
        let map = self.container.context.physical_partitions().await?;
        Ok(Reach::Part(part, map))
    }
}

/// Starts a read over after splits.
pub(super) async fn over_splits<T, F>(restarts: u32, read: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut splits = 0;
    loop {
        match read().await {
            Err(error) if error.is_partition_split() && splits < restarts => splits += 1,
            result => return result,
        }
    }
}

/// A query in progress, with the map of its ranges.
#[derive(Debug)]
struct Reading {
    merge: Merge,
    map: Option<Arc<RangeMap>>,
}

/// An error, with the map of ranges that it may prove out of date.
struct Stale {
    error: Error,
    map: Option<Arc<RangeMap>>,
}

impl Reading {
    async fn rows<C: Container, Q: Fetch<C>>(
        &mut self,
        run: &QueryRun<'_, C, Q>,
        most: usize,
    ) -> Result<Option<Vec<Q::Row>>, Stale> {
        let read = |rows: Vec<Box<RawValue>>| {
            rows.iter()
                .map(|row| run.query.read_row(row.get()).map_err(Error::decode))
                .collect::<Result<Vec<_>>>()
        };
        let page = Box::pin(self.merge.next_rows(&run.container.context, most)).await;
        page.and_then(|page| page.map(read).transpose())
            .map_err(|error| Stale {
                error,
                map: self.map.clone(),
            })
    }
}

/// The pages of a query.
#[derive(Debug)]
pub struct Pages<'a, C: Container, Q> {
    run: QueryRun<'a, C, Q>,
    reading: Option<Reading>,
}

impl<'a, C: Container, Q: Fetch<C>> Pages<'a, C, Q> {
    /// Returns the pages as a stream. An error ends it.
    pub fn stream(self) -> BoxStream<'a, Result<Vec<Q::Row>>>
    where
        Q: 'a,
    {
        let next = |mut pages: Self| async move {
            let page = pages.next_page().await?;
            Ok(page.map(|page| (page, pages)))
        };
        stream::try_unfold(self, next).boxed()
    }

    /// Whether there may be another page. `false` is certain; after `true`, there may still be no
    /// more rows.
    pub fn has_more(&self) -> bool {
        let reading = self.reading.as_ref();
        reading.is_none_or(|reading| reading.merge.progress().is_some())
    }

    /// Returns the next page, never empty; `None` at the end.
    ///
    /// # Errors
    /// When the service refuses the query or a row does not match its type;
    /// [`is_partition_split`](Error::is_partition_split) when a partition was split since the first
    /// page: start over. The next call requests a failed page again. It skips a page with a row
    /// that does not match its type; [`row_by_row`](QueryRun::row_by_row) returns the other rows of
    /// such a page.
    pub async fn next_page(&mut self) -> Result<Option<Vec<Q::Row>>> {
        // Kept after an error and in a cancelled call, so that the next call requests the same page.
        let reading = match &mut self.reading {
            Some(reading) => reading,
            none => none.insert(self.run.merge().await?),
        };
        let page = reading.rows(&self.run, ALL).await;
        self.run.refresh_stale(page).await
    }
}
