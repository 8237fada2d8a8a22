//! Reading texts back, wherever they are.

use std::time::Duration;

use cdb_client::{ContainerClient, Error};
use duroxide::providers::ProviderError;
use futures::stream::{self, StreamExt};

use crate::documents::{Chunk, ChunkKey, Chunked, Durable, Text};
use crate::error::{provider_error, unreadable};

/// How many chunks are read at the same time.
const AT_ONCE: usize = 4;

/// How often a chunk that is not found is looked for again: another process may have written it, and a replica that
/// has not heard of it may have answered.
const STALE_READS: u32 = 6;
const STALE_DELAY: Duration = Duration::from_millis(10);

/// Why a text was not read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// It is damaged, and will be at the next try.
    Damaged(String),
    /// The service did not say.
    Failed(ProviderError),
}

/// The text.
pub(crate) async fn read(
    container: &ContainerClient<Durable>,
    operation: &'static str,
    text: Text,
) -> Result<String, Unread> {
    let chunked = match text {
        Text::Inline(text) => return Ok(text),
        Text::Chunked(chunked) => chunked,
        Text::Damaged(reason) => return Err(Unread::Damaged(reason)),
    };
    let parts = chunked.parts();
    let parts = parts.map(|part| read_part(container, &chunked.instance_id, part));
    let mut parts = stream::iter(parts).buffered(AT_ONCE);
    // Grows with what is there: the number of bytes is a claim.
    let mut text = String::new();
    while let Some(part) = parts.next().await {
        match part {
            Ok(Some(part)) => text.push_str(&part.payload),
            Ok(None) => return Err(damaged(&chunked, "a chunk is missing")),
            Err(error) => return Err(Unread::Failed(provider_error(operation, &error))),
        }
    }
    if text.len() as u64 != chunked.bytes {
        return Err(damaged(&chunked, "its chunks have another length"));
    }
    Ok(text)
}

/// The text, where a damaged one is an error as any other.
pub(crate) async fn read_or_fail(
    container: &ContainerClient<Durable>,
    operation: &'static str,
    text: Text,
) -> Result<String, ProviderError> {
    read(container, operation, text)
        .await
        .map_err(|unread| match unread {
            Unread::Damaged(reason) => unreadable(operation, reason),
            Unread::Failed(error) => error,
        })
}

fn damaged(chunked: &Chunked, what: &str) -> Unread {
    Unread::Damaged(format!(
        "text `{}` of {} bytes is damaged: {what}",
        chunked.blob, chunked.bytes
    ))
}

async fn read_part(
    container: &ContainerClient<Durable>,
    instance_id: &str,
    part: String,
) -> Result<Option<Chunk>, Error> {
    let key = ChunkKey::new(instance_id, &*part);
    for again in 0..STALE_READS {
        if let Some(found) = container.read(&key).await? {
            return Ok(Some(found.document));
        }
        tokio::time::sleep(STALE_DELAY * 2_u32.pow(again)).await;
    }
    let found = container.latest_committed().read(&key).await?;
    Ok(found.map(|stored| stored.document))
}
