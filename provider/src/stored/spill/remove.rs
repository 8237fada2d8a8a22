//! Deletes chunks that no document refers to, immediately or by the sweep.

use cdb_client::ContainerClient;
use cdb_coordination::lease::{Fenced, execute_fenced_batch};
use cdb_model::operation::{BatchError, BulkBatch};
use cdb_model::{Batch, Document, ETag, Query, Timestamp};
use futures::{StreamExt as _, stream};

use crate::error::{Error, Result, committed};
use crate::stored::Store;
use crate::stored::documents::{ChunkKey, Chunked, Durable, Spill, Text};

/// The most spills per sweep. The next sweep handles the rest.
const SWEEP_SPILLS: u32 = 100;

/// The prefix of spills that are being swept. After the renaming, a late commit does not find its
/// spill.
const SWEPT: &str = "swept-";

/// The most chunks that one bulk deletes.
const BULK_CHUNKS: usize = 100;

/// The chunks that a commit consumes, and the spill that names them.
#[derive(Debug, Default)]
pub(crate) struct ConsumedChunks(Option<Spill>);

impl ConsumedChunks {
    /// Returns the chunks of texts that a commit of this instance consumes.
    pub(crate) fn of<'a>(
        instance_id: &str,
        now: Timestamp,
        texts: impl IntoIterator<Item = &'a Text>,
    ) -> Self {
        let texts = texts.into_iter().filter_map(Text::chunked);
        Self::of_chunked(instance_id, now, texts)
    }

    pub(crate) fn of_chunked<'a>(
        instance_id: &str,
        now: Timestamp,
        texts: impl IntoIterator<Item = &'a Chunked>,
    ) -> Self {
        let texts: Vec<Chunked> = texts
            .into_iter()
            .map(|chunked| Chunked {
                outline: None,
                ..chunked.clone()
            })
            .collect();
        Self((!texts.is_empty()).then(|| Spill::new(instance_id, texts, now)))
    }

    /// Adds the spill to the commit, if there are chunks.
    pub(crate) fn add_to(&self, batch: &mut Batch<Durable>) -> Result<(), BatchError> {
        match &self.0 {
            Some(spill) => batch.add(spill.create()).map(drop),
            None => Ok(()),
        }
    }

    /// Deletes the chunks in the background. Failures are left to the sweep.
    pub(crate) fn remove(self, store: &Store) {
        if let Some(spill) = self.0 {
            let container = store.container.clone();
            let removed = async move { remove(&container, &spill).await };
            store.tasks.spawn(removed);
        }
    }
}

/// Deletes the chunks of an abandoned commit in the background, unless the commit took place.
pub(super) fn release(store: &Store, spill: Spill) {
    let container = store.container.clone();
    let released = async move { release_or_log(&container, &spill, None).await };
    store.tasks.spawn(released);
}

/// Deletes chunks, then their spill. Failures are left to the sweep.
async fn remove(container: &ContainerClient<Durable>, spill: &Spill) {
    let keys = spill.texts.clone().into_iter().flat_map(Chunked::into_keys);
    let removed = match delete_chunks(container, keys).await {
        Ok(()) => container
            .run(spill.key().delete())
            .await
            .map_err(Error::from),
        failed => failed,
    };
    if let Err(error) = removed {
        tracing::debug!(%error, "chunks were not deleted; the sweep will delete them");
    }
}

/// Deletes chunks. A missing chunk is not an error.
pub(crate) async fn delete_chunks(
    container: &ContainerClient<Durable>,
    keys: impl Iterator<Item = ChunkKey> + Send,
) -> Result<()> {
    let mut parts = stream::iter(keys).chunks(BULK_CHUNKS);
    while let Some(keys) = parts.next().await {
        let mut bulk = BulkBatch::<Durable>::new();
        for key in keys {
            // No chunk has a key without an id.
            let _added = bulk.add(key.delete());
        }
        for result in container.execute_bulk(&bulk).await {
            match result {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Deletes the chunks of commits that never arrived, and of interrupted deletions.
pub(crate) async fn sweep(store: &Store) {
    let (container, before) = (
        store.container.in_background(),
        store.now() - store.orphan_age,
    );
    let query = Query::<Spill>::across_partitions()
        .filter(Spill::CREATED_AT.le(before))
        .order_by(Spill::BY_CREATED)
        .limit(SWEEP_SPILLS);
    let found = match container.query(query).row_by_row().all().await {
        Ok(found) => store.corrupt_documents.readable(found),
        Err(error) => {
            tracing::warn!(%error, "cannot search for unused chunks");
            return;
        }
    };
    for stored in found {
        // A commit that still writes chunks moves the time of its spill.
        release_or_log(&container, &stored.document, Some(&stored.etag)).await;
    }
}

/// Deletes the chunks of an abandoned commit, unless the commit took place. Logs errors.
async fn release_or_log(
    container: &ContainerClient<Durable>,
    spill: &Spill,
    version: Option<&ETag>,
) {
    if let Err(error) = release_now(container, spill, version).await {
        // After a lost answer the next sweep finds the spill.
        tracing::debug!(%error, "a spill was not released; the next sweep will retry");
    }
}

/// Deletes the chunks of an abandoned commit. Returns `false` when the commit took place, or the
/// spill has another `version`. Failures after the first step are left to the sweep.
///
/// # Errors
/// Fails when the outcome of the first step is unknown.
pub(crate) async fn release_now(
    container: &ContainerClient<Durable>,
    spill: &Spill,
    version: Option<&ETag>,
) -> Result<bool> {
    let Some(renamed) = rename(container, spill, version).await? else {
        return Ok(false);
    };
    tracing::info!(
        instance = %renamed.instance_id,
        texts = renamed.texts.len(),
        "deleting chunks that no commit refers to"
    );
    remove(container, &renamed).await;
    Ok(true)
}

/// Renames a spill for the sweep, so that its commit fails if it is still to arrive. Returns `None`
/// when the commit has taken place, another runtime has deleted the spill, or it has another
/// `version`.
async fn rename(
    container: &ContainerClient<Durable>,
    spill: &Spill,
    version: Option<&ETag>,
) -> Result<Option<Spill>> {
    if spill.name.starts_with(SWEPT) {
        return Ok(Some(spill.clone()));
    }
    let version = match version {
        Some(version) => version.clone(),
        None => match container.read(&spill.key()).await? {
            Some(stored) if !stored.document.is_trace() => stored.etag,
            _ => return Ok(None),
        },
    };
    let renamed = Spill {
        name: format!("{SWEPT}{}", spill.name),
        ..spill.clone()
    };
    let mut batch = Batch::<Durable>::new(&*renamed.instance_id);
    batch.add(spill.key().delete().if_match(&version))?;
    batch.add(renamed.create())?;
    match execute_fenced_batch(container, &batch, &renamed.key()).await? {
        Fenced::Refused(error) if error.is_not_found() || error.is_precondition_failed() => {
            Ok(None)
        }
        fenced => committed(fenced).map(|_| Some(renamed)),
    }
}
