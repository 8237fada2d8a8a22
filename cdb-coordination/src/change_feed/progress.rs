//! The stored parts of a feed: creation, progress, reset.

use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_client::feed::{ChangeRow, FeedCursor, FeedRow, FeedStart, VersionRow};
use cdb_model::operation::BulkBatch;
use cdb_model::{Batch, Container, Document as _, Query, Stored};
use futures::future::try_join_all;

use super::documents::{
    ChangeFeedState, PartDocument, PartFailure, ProcessorDocument, ProcessorDocumentKey,
};
use super::telemetry::oldest;
use crate::lease::{LeaseError, execute_fenced_once};

/// The page size while documents of other types precede the next change.
const FOREIGN_PAGE: u32 = 1000;

/// The progress of a part of a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartProgress {
    /// The boundaries in the hash space of partition keys, such as `05C1DFFFFFFFFC-FF`.
    pub borders: String,
    /// The process that reads it, if there is one: its name and the id of its start.
    pub reader: Option<String>,
    /// The age of the oldest change that is not handled; zero if there is none.
    pub lag: Duration,
    /// The last failure, until a later attempt succeeds. The changes of the part wait.
    pub failure: Option<PartFailure>,
}

/// Returns the progress of each part of the processor `name`, in the order of the hash space; empty
/// before its first start. Sends one request to `state`, and one to `source` per physical partition.
///
/// # Errors
/// When a container cannot be read.
pub async fn feed_progress<C: Container>(
    name: &str,
    source: &ContainerClient<C>,
    state: &ContainerClient<ChangeFeedState>,
) -> Result<Vec<PartProgress>, LeaseError> {
    progress::<C, FeedRow<C>>(name, source, state).await
}

/// As [`feed_progress`], for a processor of all versions and deletions.
///
/// # Errors
/// When a container cannot be read.
pub async fn versions_progress<C: Container>(
    name: &str,
    source: &ContainerClient<C>,
    state: &ContainerClient<ChangeFeedState>,
) -> Result<Vec<PartProgress>, LeaseError> {
    progress::<C, VersionRow<C>>(name, source, state).await
}

async fn progress<C: Container, R: ChangeRow<C>>(
    name: &str,
    source: &ContainerClient<C>,
    state: &ContainerClient<ChangeFeedState>,
) -> Result<Vec<PartProgress>, LeaseError> {
    let parts = active_parts(state, name).await?;
    let progress = parts.into_iter().flatten().map(async |part| {
        let part = part.document;
        let is_read = part.lease.is_held(state.now());
        let lag = lag::<C, R>(source, part.cursor).await?;
        Ok::<_, LeaseError>(PartProgress {
            borders: part.borders,
            reader: part.lease.holder().filter(|_| is_read).map(str::to_owned),
            lag,
            failure: part.failure.map(|failure| *failure),
        })
    });
    try_join_all(progress).await
}

/// Returns the age of the oldest change behind a position; zero if there is none.
pub(super) async fn lag<C: Container, R: ChangeRow<C>>(
    source: &ContainerClient<C>,
    cursor: FeedCursor,
) -> Result<Duration, cdb_client::Error> {
    let mut feed = source.resume_feed::<R>(cursor).page_size(1);
    let mut page = feed.next_page().await?;
    while page.rows.is_empty() && !page.is_end {
        // All documents of the page are of other types.
        feed = feed.page_size(FOREIGN_PAGE);
        page = feed.next_page().await?;
    }
    let oldest = oldest::<C, R>(&page.rows);
    Ok(oldest.map_or(Duration::ZERO, |oldest| source.now().since(oldest)))
}

/// Moves the processor `name` to `start`. Processes that run it finish the changes that they handle,
/// and then continue there, within 10 s. A processor that has never run begins there.
///
/// # Errors
/// When `state` cannot be written, or another process resets the processor at the same time.
pub async fn reset_feed(
    name: &str,
    state: &ContainerClient<ChangeFeedState>,
    start: FeedStart,
) -> Result<(), LeaseError> {
    let key = ProcessorDocumentKey::new(name);
    loop {
        let Some(stored) = state.latest_committed().read(&key).await? else {
            if create(state, name, start).await? {
                return Ok(());
            }
            // The processor has started since the read, maybe at another position.
            continue;
        };
        let processor = ProcessorDocument::new(name, stored.document.generation + 1);
        let mut batch = Batch::new(name);
        batch.add(processor.replace().if_match(&stored.etag))?;
        batch.add(PartDocument::whole(name, processor.generation, start).create())?;
        written(state, &batch, &processor).await?;
        return delete_obsolete(state, &processor).await;
    }
}

/// Creates the documents of a processor. Returns `false` if they exist already.
pub(super) async fn create(
    state: &ContainerClient<ChangeFeedState>,
    name: &str,
    start: FeedStart,
) -> Result<bool, LeaseError> {
    let processor = ProcessorDocument::new(name, 0);
    let mut batch = Batch::new(name);
    batch.add(processor.create())?;
    batch.add(PartDocument::whole(name, 0, start).create())?;
    match written(state, &batch, &processor).await {
        Err(LeaseError::Client(error)) if error.is_conflict() => Ok(false),
        written => written.map(|()| true),
    }
}

async fn written(
    state: &ContainerClient<ChangeFeedState>,
    batch: &Batch<ChangeFeedState>,
    processor: &ProcessorDocument,
) -> Result<(), LeaseError> {
    let took_place = |latest: ContainerClient<ChangeFeedState>| async move {
        let found = latest.read(&processor.key()).await?;
        Ok(found.is_some_and(|stored| stored.document.start_id == processor.start_id))
    };
    Ok(execute_fenced_once(state, batch, took_place).await?)
}

/// Deletes the parts of the generations before the last one. Handlers may still run for parts of the
/// last one, whose leases they renew.
async fn delete_obsolete(
    state: &ContainerClient<ChangeFeedState>,
    processor: &ProcessorDocument,
) -> Result<(), LeaseError> {
    let parts = Query::<PartDocument>::in_partition(&processor.processor);
    let mut bulk = BulkBatch::new();
    for part in state.query(parts).all().await? {
        if part.document.generation + 1 < processor.generation {
            bulk.add(part.delete())?;
        }
    }
    for deleted in state.execute_bulk(&bulk).await {
        match deleted {
            // Another reset has deleted it.
            Err(error) if error.is_not_found() => {}
            deleted => drop(deleted?),
        }
    }
    Ok(())
}

/// Returns the parts of the current generation that are not divided, in the order of the hash space;
/// `None` if the processor has never run.
pub(super) async fn active_parts(
    state: &ContainerClient<ChangeFeedState>,
    name: &str,
) -> Result<Option<Vec<Stored<PartDocument>>>, LeaseError> {
    let all = Query::<ChangeFeedState>::in_partition(name);
    let all = state.latest_committed().query(all).all().await?;
    let (mut generation, mut parts) = (None, Vec::new());
    for stored in all {
        match &stored.document {
            ChangeFeedState::Processor(processor) => generation = Some(processor.generation),
            ChangeFeedState::Part(part) if !part.divided => {
                let part = part.clone();
                parts.push(stored.map(|_| part));
            }
            ChangeFeedState::Part(_) | ChangeFeedState::Member(_) => {}
        }
    }
    parts.retain(|part: &Stored<PartDocument>| Some(part.document.generation) == generation);
    parts.sort_by(|a, b| a.document.borders.cmp(&b.document.borders));
    Ok(generation.map(|_| parts))
}
