//! Searches that skip unreadable documents.

mod window;

use cdb_client::{ContainerClient, Error};
use cdb_model::Container;
use cdb_model::query::statement::Fetch;
use cdb_model::stored::Unreadable;
use futures::StreamExt as _;

pub(crate) use window::MAX_ROWS;
#[doc(hidden)]
pub use window::{Runs, Search, Windows};

/// How often a search starts again after a physical partition was split.
const SPLITS: u32 = 4;

/// The rows of a query, without the documents that cannot be read.
#[derive(Debug)]
pub struct Rows<Row> {
    /// The readable rows, in order.
    pub rows: Vec<Row>,
    /// The unreadable documents between the rows.
    pub unreadable: Vec<Unreadable>,
}

impl<Row> Rows<Row> {
    /// Separates readable from unreadable documents.
    pub fn apart(found: Vec<Result<Row, Unreadable>>) -> Self {
        let (mut rows, mut unreadable) = (Vec::with_capacity(found.len()), Vec::new());
        for row in found {
            match row {
                Ok(row) => rows.push(row),
                Err(document) => unreadable.push(document),
            }
        }
        Self { rows, unreadable }
    }
}

/// How many requests for different items run at once.
const PARALLEL: usize = 16;

/// Does `work` for all items. So the first of many does not wait for the others one by one.
pub(crate) async fn in_parallel<F: Future>(work: Vec<F>) -> Vec<F::Output> {
    futures::stream::iter(work)
        .buffer_unordered(PARALLEL)
        .collect()
        .await
}

/// Returns the first `most` readable rows of the physical partitions that answer. Unreadable
/// documents do not count, up to the most rows of a search: the caller moves them out of the way.
///
/// # Errors
/// When the service refuses the search.
pub(crate) async fn find<C, Q>(
    container: &ContainerClient<C>,
    query: Q,
    most: usize,
) -> Result<Rows<Q::Row>, Error>
where
    C: Container,
    Q: Fetch<C> + Clone,
{
    let size = u32::try_from(most).unwrap_or(u32::MAX);
    let mut splits = 0;
    loop {
        let once = async {
            let run = container.query(query.clone()).page_size(size).row_by_row();
            let mut pages = run.skip_unavailable().pages();
            let mut found = Rows::apart(Vec::new());
            while found.rows.len() < most
                && found.rows.len() + found.unreadable.len() < MAX_ROWS as usize
                && let Some(page) = pages.next_page().await?
            {
                let page = Rows::apart(page);
                found.rows.extend(page.rows);
                found.unreadable.extend(page.unreadable);
            }
            found.rows.truncate(most);
            Ok(found)
        };
        match once.await {
            Err::<_, Error>(error) if error.is_partition_split() && splits < SPLITS => splits += 1,
            found => return found,
        }
    }
}
