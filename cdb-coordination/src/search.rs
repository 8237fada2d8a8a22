//! Searches that one spoiled document does not stop: page by page, and in a page document by document.

use cdb_client::{ContainerClient, Error};
use cdb_model::{Container, Fetch, Unreadable};

/// How often a search begins anew because a physical partition was split under it.
const SPLITS: u32 = 4;

/// What a search has found.
pub(crate) struct Found<Row> {
    /// In order.
    pub(crate) rows: Vec<Row>,
    /// What stood between them and cannot be read.
    pub(crate) unreadable: Vec<Unreadable>,
}

impl<Row> Found<Row> {
    /// Tells what can be read from what cannot.
    pub(crate) fn apart(found: Vec<Result<Row, Unreadable>>) -> Self {
        let (mut rows, mut unreadable) = (Vec::with_capacity(found.len()), Vec::new());
        for row in found {
            match row {
                Ok(row) => rows.push(row),
                Err(spoiled) => unreadable.push(spoiled),
            }
        }
        Self { rows, unreadable }
    }
}

/// The first `most` rows that can be read. As many that cannot end the search too: they are put aside, and the next one
/// finds what is behind them.
///
/// # Errors
/// When the service refuses the search.
pub(crate) async fn find<C, Q>(
    container: &ContainerClient<C>,
    query: Q,
    most: usize,
) -> Result<Found<Q::Row>, Error>
where
    C: Container,
    Q: Fetch<C> + Clone,
{
    let mut splits = 0;
    loop {
        match find_once(container, query.clone(), most).await {
            Err(error) if error.is_partition_split() && splits < SPLITS => splits += 1,
            settled => return settled,
        }
    }
}

async fn find_once<C, Q>(
    container: &ContainerClient<C>,
    query: Q,
    most: usize,
) -> Result<Found<Q::Row>, Error>
where
    C: Container,
    Q: Fetch<C>,
{
    let size = u32::try_from(most).unwrap_or(u32::MAX);
    let run = container.query(query).page_size(size).row_by_row();
    let mut pages = run.pages();
    let mut found = Found::apart(Vec::new());
    while found.rows.len() < most
        && found.unreadable.len() < most
        && let Some(page) = pages.next_page().await?
    {
        let page = Found::apart(page);
        found.rows.extend(page.rows);
        found.unreadable.extend(page.unreadable);
    }
    found.rows.truncate(most);
    Ok(found)
}
