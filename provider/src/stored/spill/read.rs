//! Reads texts, inline or in chunks.

use std::pin::Pin;
use std::time::Duration;

use cdb_client::ContainerClient;
use futures::stream::{self, StreamExt};
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::stored::documents::{Chunk, ChunkKey, Chunked, Durable, Text};
use crate::timing::{READ_RENEWAL, SHORT_READ, STALE_CHUNK_PAUSE, STALE_CHUNK_READS};

/// The number of concurrent reads.
const CONCURRENCY: usize = 4;

/// Reads texts of an item whose lock is held. The caller renews the lock in between: the runtime
/// renews it only after it has the item, and expects its full time.
pub(crate) struct ReadUnderLock<'a, F: Future> {
    read: Pin<&'a mut F>,
    lock_time: Duration,
    begun: Instant,
    done: Option<F::Output>,
}

impl<'a, F: Future> ReadUnderLock<'a, F> {
    pub(crate) fn new(lock_time: Duration, read: Pin<&'a mut F>) -> Self {
        Self {
            read,
            lock_time,
            begun: Instant::now(),
            done: None,
        }
    }

    /// Reads on. Returns `None` when the caller has to renew the lock and go on. After a long read,
    /// the lock is renewed once more before the result is used.
    pub(crate) async fn next(&mut self) -> Option<F::Output> {
        if self.done.is_some() {
            return self.done.take();
        }
        let read = tokio::time::timeout(self.lock_time / READ_RENEWAL, self.read.as_mut()).await;
        let is_short = self.begun.elapsed() < SHORT_READ.min(self.lock_time / 8);
        match read {
            Ok(done) if is_short => Some(done),
            read => {
                self.done = read.ok();
                None
            }
        }
    }
}

/// Reads a text.
pub(crate) async fn read(container: &ContainerClient<Durable>, text: Text) -> Result<String> {
    let chunked = match text {
        Text::Inline(text) => return Ok(text),
        Text::Chunked(chunked) => chunked,
        Text::Damaged(reason) => return Err(Error::Damaged(reason)),
    };
    let parts = chunked.parts();
    let parts = parts.map(|part| read_part(container, &chunked.instance_id, part));
    let mut parts = stream::iter(parts).buffered(CONCURRENCY);
    // Not reserved by `bytes`, which may be damaged.
    let mut text = String::new();
    while let Some(part) = parts.next().await {
        match part? {
            Some(part) => text.push_str(&part.payload),
            None => return Err(damaged(&chunked, "a chunk is missing")),
        }
    }
    if text.len() as u64 != chunked.bytes {
        return Err(damaged(&chunked, "its chunks have a different length"));
    }
    Ok(text)
}

fn damaged(chunked: &Chunked, what: &str) -> Error {
    Error::Damaged(format!(
        "text `{}` of {} bytes is damaged: {what}",
        chunked.blob, chunked.bytes
    ))
}

async fn read_part(
    container: &ContainerClient<Durable>,
    instance_id: &str,
    part: String,
) -> Result<Option<Chunk>> {
    let key = ChunkKey::new(instance_id, &*part);
    for again in 0..STALE_CHUNK_READS {
        if let Some(found) = container.read(&key).await? {
            return Ok(Some(found.document));
        }
        tokio::time::sleep(STALE_CHUNK_PAUSE * 2_u32.pow(again)).await;
    }
    let found = container.latest_committed().read(&key).await?;
    Ok(found.map(|stored| stored.document))
}
