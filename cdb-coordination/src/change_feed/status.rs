//! The state of all processors of a container, for tools that know neither their names nor the types
//! of their documents.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_client::feed::{FeedCursor, FeedRow, VersionRow};
use cdb_client::{ContainerClient, CosmosClient};
use cdb_model::container::DefaultTtl;
use cdb_model::document::DecodeError;
use cdb_model::shape::DocumentShape;
use cdb_model::{Container, Document, Query};
use futures::{StreamExt as _, stream};

use super::documents::{ChangeFeedState, FeedSource, PartDocument, PartFailure, ProcessorDocument};
use super::progress::lag;
use crate::lease::LeaseError;

/// The number of concurrent reads of lags.
const CONCURRENT: usize = 16;

/// A part of a processor's feed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FeedPart {
    /// The name of the processor.
    pub processor: String,
    /// The boundaries in the hash space of partition keys, such as `05C1DFFFFFFFFC-FF`.
    pub borders: String,
    /// The container of the changes; `None` before the first write of a reader.
    pub source: Option<FeedSource>,
    /// The process that reads it, if there is one: its name and the id of its start.
    pub reader: Option<String>,
    /// The age of the oldest document behind the position, of any type; `None` if the container of
    /// the changes is unknown or cannot be read.
    pub lag: Option<Duration>,
    /// The last failure, until a later attempt succeeds. The changes of the part wait.
    pub failure: Option<PartFailure>,
}

/// Returns the parts of all processors that store their positions in `state`, by processor and in the
/// order of the hash space. Sends one query to `state`, and one request per part to the container of
/// its changes.
///
/// # Errors
/// When `state` cannot be read.
pub async fn feed_parts(
    client: &CosmosClient,
    state: &ContainerClient<ChangeFeedState>,
) -> Result<Vec<FeedPart>, LeaseError> {
    let (mut generations, mut parts) = (BTreeMap::new(), Vec::new());
    let all = Query::<ChangeFeedState>::across_partitions();
    for stored in state.query(all).all().await? {
        match stored.document {
            ChangeFeedState::Processor(ProcessorDocument {
                processor,
                generation,
                ..
            }) => drop(generations.insert(processor, generation)),
            ChangeFeedState::Part(part) if !part.divided => parts.push(part),
            ChangeFeedState::Part(_) | ChangeFeedState::Member(_) => {}
        }
    }
    parts.retain(|part| generations.get(&part.processor) == Some(&part.generation));
    parts.sort_by(|a, b| (&a.processor, &a.borders).cmp(&(&b.processor, &b.borders)));
    let now = state.now();
    let parts = parts.into_iter().map(async |part: PartDocument| {
        let reader = part.lease.holder().filter(|_| part.lease.is_held(now));
        let lag = match &part.source {
            Some(source) => lag_of(client, source, part.cursor).await,
            None => None,
        };
        FeedPart {
            reader: reader.map(str::to_owned),
            processor: part.processor,
            borders: part.borders,
            source: part.source.map(|source| *source),
            lag,
            failure: part.failure.map(|failure| *failure),
        }
    });
    // Collected, because a stream of borrowing closures is not `Send`.
    let parts: Vec<_> = parts.collect();
    Ok(stream::iter(parts).buffered(CONCURRENT).collect().await)
}

async fn lag_of(
    client: &CosmosClient,
    source: &FeedSource,
    cursor: FeedCursor,
) -> Option<Duration> {
    let database = client.database(&source.database);
    let container = database.container::<AnyDocument>(&source.container);
    let lag = if source.all_versions {
        lag::<AnyDocument, VersionRow<AnyDocument>>(&container, cursor).await
    } else {
        lag::<AnyDocument, FeedRow<AnyDocument>>(&container, cursor).await
    };
    lag.inspect_err(|error| {
        let container = &source.container;
        tracing::warn!(container, %error, "the lag of a change feed is unknown");
    })
    .ok()
}

/// Any container: only the timestamps of its documents are read.
struct AnyDocument;

impl Container for AnyDocument {
    const NAME: &'static str = "AnyDocument";
    /// Every document has an id, and [`decode`](Self::decode) accepts all of them.
    const DISCRIMINATOR: &'static str = "id";
    const PARTITION_KEY: &'static [&'static str] = ChangeFeedState::PARTITION_KEY;
    const DOCUMENTS: &'static [&'static DocumentShape] = &[];
    const DEFAULT_TTL: DefaultTtl = ChangeFeedState::DEFAULT_TTL;

    fn decode(_: &str, _: &str) -> Result<Self, DecodeError> {
        Ok(Self)
    }

    fn shape(&self) -> &'static DocumentShape {
        <ProcessorDocument as Document>::SHAPE
    }
}
