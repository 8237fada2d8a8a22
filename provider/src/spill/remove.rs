//! Removing chunks that nothing refers to any more, at once or by the sweep.

use cdb_client::ContainerClient;
use cdb_coordination::{Fenced, Proof, execute_proven};
use cdb_model::{Batch, BatchError, BulkBatch, Document, Query, Timestamp};

use crate::documents::{ChunkKey, Chunked, Durable, Spill, SpillKey, Text};
use crate::error::{Result, committed};
use crate::services::Services;
use crate::store::Store;

/// Most spills per sweep; what is left comes with the next one.
const ROUND: u32 = 100;

/// The names of spills that are being swept begin like this, so that no commit finds its own any more.
const SWEPT: &str = "swept-";

/// Most chunks that are removed by one bulk.
const AT_ONCE: usize = 100;

/// Chunks to remove, and the document that says so.
#[derive(Debug)]
pub(crate) struct ConsumedChunks(Spill);

impl ConsumedChunks {
    /// What is left of texts that a commit of this instance consumes. `None` when none of them has chunks.
    pub(crate) fn of<'a>(
        instance_id: &str,
        now: Timestamp,
        texts: impl IntoIterator<Item = &'a Text>,
    ) -> Option<Self> {
        let texts = texts.into_iter().filter_map(Text::chunked);
        Self::of_chunked(instance_id, now, texts)
    }

    pub(crate) fn of_chunked<'a>(
        instance_id: &str,
        now: Timestamp,
        texts: impl IntoIterator<Item = &'a Chunked>,
    ) -> Option<Self> {
        let texts: Vec<Chunked> = texts
            .into_iter()
            .map(|chunked| Chunked {
                outline: None,
                ..chunked.clone()
            })
            .collect();
        (!texts.is_empty()).then(|| {
            Self(Spill {
                instance_id: instance_id.to_owned(),
                name: uuid::Uuid::new_v4().to_string(),
                texts,
                created_at: now,
            })
        })
    }

    /// Adds to the commit that these chunks are to go.
    pub(crate) fn add_to(&self, batch: &mut Batch<Durable>) -> Result<(), BatchError> {
        batch.create(&self.0).map(|_| ())
    }

    /// Removes them without anybody waiting for it. What fails is left to the sweep.
    pub(crate) fn remove(self, services: &Services) {
        services.spawn(|services| async move { remove(services.container(), &self.0).await });
    }
}

/// Removes the chunks of a commit that is not tried any more, if it has not taken place.
pub(super) fn give_up(services: &Services, spill: Spill) {
    services.spawn(|services| async move {
        take(services.container(), &spill).await;
    });
}

/// A spill under the name that it is swept by.
fn swept(spill: &Spill) -> Spill {
    Spill {
        name: format!("{SWEPT}{}", spill.name),
        ..spill.clone()
    }
}

/// Deletes chunks, then what told of them.
async fn remove(container: &ContainerClient<Durable>, spill: &Spill) {
    let parts = spill
        .texts
        .iter()
        .flat_map(|text| text.parts().map(|part| (&text.instance_id, part)));
    let mut bulk = BulkBatch::<Durable>::new();
    for (instance_id, part) in parts {
        if bulk.delete(&ChunkKey::new(&**instance_id, part)).is_err() {
            // No chunk has such an id.
            continue;
        }
        if bulk.len() == AT_ONCE && !emptied(container, &mut bulk).await {
            return;
        }
    }
    if !emptied(container, &mut bulk).await {
        return;
    }
    let key = SpillKey::new(&*spill.instance_id, &*spill.name);
    match container.delete(&key).await {
        Err(error) if !error.is_not_found() => {
            tracing::debug!(%error, "chunks were removed, but not what tells of them; the sweep will");
        }
        _ => {}
    }
}

/// Sends the deletions. Whether all of them are done.
async fn emptied(container: &ContainerClient<Durable>, bulk: &mut BulkBatch<Durable>) -> bool {
    let full = std::mem::replace(bulk, BulkBatch::new());
    if full.is_empty() {
        return true;
    }
    for result in container.execute_bulk(&full).await {
        if let Err(error) = result
            && !error.is_not_found()
        {
            tracing::debug!(%error, "chunks are left to the sweep");
            return false;
        }
    }
    true
}

/// Removes the chunks of commits that never came, and of removals that were interrupted.
pub(crate) async fn sweep(store: &Store) {
    let before = store.now() - store.orphan_age;
    let query = Query::<Spill>::across_partitions()
        .filter(Spill::CREATED_AT.le(before))
        .order_by(Spill::BY_CREATED.asc())
        .top(ROUND);
    let found = match store.container.query(query).row_by_row().all().await {
        Ok(found) => store.corrupt_documents.readable(found),
        Err(error) => {
            tracing::warn!(%error, "lost chunks cannot be searched for");
            return;
        }
    };
    for stored in found {
        take(&store.container, &stored.document).await;
    }
}

/// Removes the chunks of a commit that shall not come any more, if it has not come.
async fn take(container: &ContainerClient<Durable>, spill: &Spill) {
    if let Err(error) = give_up_now(container, spill).await {
        // After a lost answer the next sweep will find it.
        tracing::debug!(%error, "a spill was not taken");
    }
}

/// Removes the chunks of a commit that shall not come any more; `false` when it has just come. What fails after the first
/// step is left to the sweep.
///
/// # Errors
/// When nobody knows.
pub(crate) async fn give_up_now(
    container: &ContainerClient<Durable>,
    spill: &Spill,
) -> Result<bool> {
    let Some(renamed) = rename(container, spill).await? else {
        return Ok(false);
    };
    tracing::info!(
        instance = %renamed.instance_id,
        texts = renamed.texts.len(),
        "removing chunks that no commit refers to"
    );
    remove(container, &renamed).await;
    Ok(true)
}

/// Gives a spill the name that it is swept by, so that a commit that is still to come fails. `None` when it was settled by
/// its commit, or taken by another runtime.
async fn rename(container: &ContainerClient<Durable>, spill: &Spill) -> Result<Option<Spill>> {
    if spill.name.starts_with(SWEPT) {
        return Ok(Some(spill.clone()));
    }
    let renamed = swept(spill);
    let mut batch = Batch::<Durable>::new(&*renamed.instance_id);
    // Unconditionally: a spill never changes.
    batch.delete(&SpillKey::new(&*spill.instance_id, &*spill.name))?;
    batch.create(&renamed)?;
    match execute_proven(container, &batch, &Proof::Created(renamed.key())).await? {
        Fenced::Refused(error) if error.is_not_found() => Ok(None),
        fenced => committed(fenced).map(|_| Some(renamed)),
    }
}
