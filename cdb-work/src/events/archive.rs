//! Moves old events out of the event store, because a logical partition has at most 20 GB.

use async_trait::async_trait;
use cdb_client::ContainerClient;
use cdb_coordination::HandlerError;
use cdb_model::Document as _;
use cdb_model::operation::BulkBatch;

use super::read::read_events;
use crate::error::WorkError;
use crate::streams::documents::{StreamEvent, Work};

/// A place for old events: a container ([`ContainerArchive`]), a blob, a file.
#[async_trait]
pub trait EventArchive: Send + Sync {
    /// Stores events of one stream, oldest first. Returns when they are durable: the event store
    /// then deletes them. After an error or a crash the same events may be passed again, so storing
    /// them twice must have the effect of storing them once.
    async fn store(&self, events: &[StreamEvent]) -> Result<(), HandlerError>;
}

/// Archives events in another container, with one logical partition per stream.
///
/// ```
/// use cdb_client::ContainerClient;
/// use cdb_work::{ContainerArchive, NewEvent, Work};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_container("archive", async |archive: ContainerClient<Work>| {
/// # let work = setup::coordinator(archive.clone()).await?;
///
/// let events = work.events();
/// events.append("order-7", 0, ["placed", "paid", "sent"].map(|kind| NewEvent::new(kind, "{}")).into()).await?;
/// let archive = ContainerArchive::new(archive); // another container than that of the work
/// assert_eq!(events.archive_up_to("order-7", 2, &archive).await?, 2);
///
/// let old = archive.read("order-7", 0, 100).await?;
/// let new = events.read("order-7", 2, 100).await?;
/// let kinds: Vec<_> = old.iter().chain(&new).map(|event| &*event.kind).collect();
/// assert_eq!(kinds, ["placed", "paid", "sent"]);
/// # work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct ContainerArchive {
    container: ContainerClient<Work>,
}

impl ContainerArchive {
    /// An archive in `container`.
    pub fn new(container: ContainerClient<Work>) -> Self {
        Self { container }
    }

    /// Reads up to `most` archived events of a stream after version `after`, in order. Their
    /// [`partition`](StreamEvent::partition) is the name of the stream.
    ///
    /// # Errors
    /// When the read fails. [`WorkError::EventsDeleted`] when the archive has later events and not
    /// the next one.
    pub async fn read(
        &self,
        stream: &str,
        after: u64,
        most: u32,
    ) -> Result<Vec<StreamEvent>, WorkError> {
        read_events(&self.container, stream, stream, after, most).await
    }
}

#[async_trait]
impl EventArchive for ContainerArchive {
    async fn store(&self, events: &[StreamEvent]) -> Result<(), HandlerError> {
        let mut bulk = BulkBatch::<Work>::new();
        for event in events {
            bulk.add(
                StreamEvent {
                    partition: event.stream.clone(),
                    ..event.clone()
                }
                .upsert(),
            )?;
        }
        for stored in self.container.execute_bulk(&bulk).await {
            stored?;
        }
        Ok(())
    }
}
