//! Asking typed queries: all rows, the first, page by page, or each physical partition by itself.

use std::sync::Arc;

use cdb_model::{Container, Fetch, RowByRow, Scope, Statement};
use futures::future::try_join_all;
use serde_json::value::RawValue;

use crate::container::handle::ContainerClient;
use crate::container::merge::Merge;
use crate::container::page::{Continuation, Page};
use crate::container::source::{QueryRequest, Target};
use crate::error::{Error, Result};
use crate::ranges::{RangeId, RangeMap};

/// How often a query starts over when partitions split under it.
const SPLITS_SURVIVED: u32 = 4;

/// As many rows as a page holds.
const ALL: usize = usize::MAX;

/// A query about to be asked. Nothing is sent before one of its asynchronous methods is called.
///
/// ```
/// use cdb_model::Query;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, order};
/// # shop::with_shop(async |shop| {
///
/// shop.create(&order(1)).await?;
/// let ann = Query::<Order>::in_partition("ann");
/// assert_eq!(shop.query(ann.clone()).all().await?.len(), 1);
/// assert_eq!(shop.query(ann.count()).first().await?, Some(1));
/// # Ok(()) }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "a query is asked by `all`, `first`, `pages` or `per_range`"]
pub struct QueryRun<'a, C: Container, Q> {
    container: &'a ContainerClient<C>,
    query: Q,
    page_size: Option<u32>,
    range: Option<RangeId>,
}

/// The rows of one physical partition.
///
/// ```
/// use cdb_model::Query;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, order};
/// # shop::with_shop(async |shop| {
///
/// shop.create(&order(1)).await?;
/// for answer in shop.query(Query::<Order>::across_partitions()).per_range().await? {
///     println!("{:?} has {}", answer.range, answer.rows.len());
/// }
/// # Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RangeRows<Row> {
    /// Which partition.
    pub range: RangeId,
    /// Its own answer to the query, with its own `TOP` and order.
    pub rows: Vec<Row>,
}

impl<C: Container> ContainerClient<C> {
    /// A query in one partition, or across all of them as its scope says.
    pub fn query<Q: Fetch<C>>(&self, query: Q) -> QueryRun<'_, C, Q> {
        QueryRun {
            container: self,
            query,
            page_size: None,
            range: None,
        }
    }
}

impl<'a, C: Container, Q: Fetch<C>> QueryRun<'a, C, Q> {
    /// Asks for at most this many rows per request and physical partition. Bounds a page, not the result.
    pub fn page_size(mut self, rows: u32) -> Self {
        self.page_size = Some(rows.max(1));
        self
    }

    /// Asks one physical partition instead of all. Says [`is_partition_split`](Error::is_partition_split) when it no
    /// longer exists; [`ContainerClient::ranges`] then names the new ones. Changes nothing for a query in one logical
    /// partition.
    pub fn in_range(mut self, range: &RangeId) -> Self {
        self.range = Some(range.clone());
        self
    }

    /// Reads row by row: one that does not fit its type is an [`Unreadable`](cdb_model::Unreadable) row among the others,
    /// instead of an error for all of them. For whoever goes on with what can be read, and reports the rest or puts it
    /// aside.
    pub fn row_by_row(self) -> QueryRun<'a, C, RowByRow<Q>> {
        QueryRun {
            container: self.container,
            query: RowByRow(self.query),
            page_size: self.page_size,
            range: self.range,
        }
    }

    /// All rows, in order.
    ///
    /// # Errors
    /// When the service refuses the query or a row does not fit its type.
    pub async fn all(self) -> Result<Vec<Q::Row>> {
        let mut splits = 0;
        loop {
            match self.read_all().await {
                Err(error) if self.survives(&error, &mut splits) => {}
                result => return result,
            }
        }
    }

    async fn read_all(&self) -> Result<Vec<Q::Row>> {
        let mut merge = self.merge().await?;
        let mut rows = Vec::new();
        while let Some(page) = self.refresh_stale(merge.rows(self, ALL).await).await? {
            rows.extend(page);
        }
        Ok(rows)
    }

    /// The first row, or `None`. Asks for one row only; of a count, that is the count.
    ///
    /// # Errors
    /// When the service refuses the query or the row does not fit its type.
    pub async fn first(mut self) -> Result<Option<Q::Row>> {
        self.page_size.get_or_insert(1);
        let mut splits = 0;
        loop {
            match self.read_first().await {
                Err(error) if self.survives(&error, &mut splits) => {}
                result => return result,
            }
        }
    }

    async fn read_first(&self) -> Result<Option<Q::Row>> {
        let mut merge = self.merge().await?;
        let page = self.refresh_stale(merge.rows(self, 1).await).await?;
        Ok(page.and_then(|rows| rows.into_iter().next()))
    }

    /// Page by page. A page ends where the service ends it, or where the order needs another partition's next page.
    pub fn pages(self) -> Pages<'a, C, Q> {
        Pages {
            run: self,
            reading: None,
        }
    }

    /// One page of exactly `rows` rows, or fewer at the end, from the beginning or from where another page ended. The
    /// next one can be asked for later and by another process: what is needed for it is in [`Page::next`]. Each page
    /// is as the container is then, so what changes its place between two pages may be seen twice or not at all.
    ///
    /// Across several physical partitions a sorted page reads so many rows of each.
    ///
    /// # Errors
    /// When the service refuses the query, a row does not fit its type, or the page to go on from is of another query;
    /// [`is_partition_split`](Error::is_partition_split) when a partition was split since: begin anew.
    pub async fn page(mut self, rows: usize, from: Option<&Continuation>) -> Result<Page<Q::Row>> {
        let size = u32::try_from(rows).unwrap_or(u32::MAX).max(1);
        self.page_size.get_or_insert(size);
        let mut splits = 0;
        loop {
            match self.read_page(rows, from).await {
                Err(error) if from.is_none() && self.survives(&error, &mut splits) => {}
                result => return result,
            }
        }
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
        let next = progress.map(|progress| Continuation::of(&progress));
        Ok(Page {
            rows: page,
            next: next.transpose()?,
        })
    }

    async fn resumed(&self, continuation: &Continuation) -> Result<Reading> {
        let statement = self.query.statement();
        let map = match statement.scope {
            Scope::Partition(_) => None,
            Scope::AllPartitions => Some(self.container.context.ranges().await?),
        };
        let request =
            QueryRequest::new(&statement, self.page_size, self.container.latest_committed)?;
        let targets = map.as_ref().map_or(1, |map| map.iter().count());
        let merge = Merge::resumed(statement, request, continuation.progress()?, targets);
        let merge = merge.ok_or_else(|| {
            Error::configuration("the page to go on from is of another query; begin anew")
        })?;
        Ok(Reading { merge, map })
    }

    /// What each physical partition answers by itself, all asked at once. For pollers that want a few candidates of
    /// every partition.
    ///
    /// # Errors
    /// When the service refuses the query or a row does not fit its type.
    pub async fn per_range(self) -> Result<Vec<RangeRows<Q::Row>>> {
        let mut splits = 0;
        loop {
            match self.read_per_range().await {
                Err(error) if self.survives(&error, &mut splits) => {}
                result => return result,
            }
        }
    }

    async fn read_per_range(&self) -> Result<Vec<RangeRows<Q::Row>>> {
        let map = self.container.context.ranges().await?;
        let asked = map.iter().map(|range| self.read_range(&range.id, &map));
        try_join_all(asked).await
    }

    async fn read_range(&self, range: &RangeId, map: &Arc<RangeMap>) -> Result<RangeRows<Q::Row>> {
        let mut reading = self.read_from(vec![Target::Range(range.clone())], Some(map.clone()))?;
        let mut rows = Vec::new();
        while let Some(page) = self.refresh_stale(reading.rows(self, ALL).await).await? {
            rows.extend(page);
        }
        Ok(RangeRows {
            range: range.clone(),
            rows,
        })
    }

    /// Whether to ask again after an error: a range was split, and not one that the caller named, which cannot be
    /// replaced by its children behind his back.
    fn survives(&self, error: &Error, splits: &mut u32) -> bool {
        *splits += 1;
        error.is_partition_split() && self.range.is_none() && *splits <= SPLITS_SURVIVED
    }

    /// Passes a result on; has the ranges listed anew when one of them is gone.
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

    async fn merge(&self) -> Result<Reading> {
        let statement = self.query.statement();
        match (&statement.scope, &self.range) {
            (Scope::Partition(key), _) => {
                self.read_from(vec![Target::Partition(key.clone())], None)
            }
            (Scope::AllPartitions, Some(range)) => {
                let map = self.container.context.ranges().await?;
                self.read_from(vec![Target::Range(range.clone())], Some(map))
            }
            (Scope::AllPartitions, None) => {
                let map = self.container.context.ranges().await?;
                let targets = map.iter().map(|range| Target::Range(range.id.clone()));
                self.read_from(targets.collect(), Some(map.clone()))
            }
        }
    }

    fn read_from(&self, targets: Vec<Target>, map: Option<Arc<RangeMap>>) -> Result<Reading> {
        let statement: Statement = self.query.statement();
        let request =
            QueryRequest::new(&statement, self.page_size, self.container.latest_committed)?;
        Ok(Reading {
            merge: Merge::new(statement, request, targets),
            map,
        })
    }
}

/// A query being read, with the map its ranges are from.
#[derive(Debug)]
struct Reading {
    merge: Merge,
    map: Option<Arc<RangeMap>>,
}

/// An error, with the map that it may prove out of date.
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
        let page = self.merge.next_rows(&run.container.context, most).await;
        page.and_then(|page| page.map(read).transpose())
            .map_err(|error| Stale {
                error,
                map: self.map.clone(),
            })
    }
}

/// A query read page by page.
///
/// ```
/// use cdb_model::Query;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, order};
/// # shop::with_shop(async |shop| {
///
/// shop.create(&order(1)).await?;
/// let mut pages = shop.query(Query::<Order>::across_partitions()).page_size(100).pages();
/// while let Some(orders) = pages.next_page().await? {
///     println!("{} more", orders.len());
/// }
/// assert!(!pages.has_more());
/// # Ok(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct Pages<'a, C: Container, Q> {
    run: QueryRun<'a, C, Q>,
    reading: Option<Reading>,
}

impl<C: Container, Q: Fetch<C>> Pages<'_, C, Q> {
    /// Whether there may be another page. Certain only if not: the last page can turn out to be empty.
    pub fn has_more(&self) -> bool {
        let reading = self.reading.as_ref();
        reading.is_none_or(|reading| reading.merge.progress().is_some())
    }

    /// The next page, never empty; `None` at the end.
    ///
    /// # Errors
    /// When the service refuses the query or a row does not fit its type;
    /// [`is_partition_split`](Error::is_partition_split) when a partition was split since the first page: what was
    /// read so far cannot be continued, ask again. The next call asks again for a page that could not be had, and goes on
    /// behind one with a row that does not fit; [`row_by_row`](QueryRun::row_by_row) gives its other rows.
    pub async fn next_page(&mut self) -> Result<Option<Vec<Q::Row>>> {
        let mut reading = match self.reading.take() {
            Some(reading) => reading,
            None => self.run.merge().await?,
        };
        let page = reading.rows(&self.run, ALL).await;
        // Also after an error: the next call asks for the page that could not be had.
        self.reading = Some(reading);
        self.run.refresh_stale(page).await
    }
}
