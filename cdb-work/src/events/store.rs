//! An event store in the container of the work: append at an expected version, read a stream,
//! follow all streams.
//!
//! The events of a stream are in the partition of its messages. So the batch that completes a
//! message can append events, which then exist if and only if the message is completed.

use cdb_client::ContainerClient;
use cdb_client::feed::{FeedCursor, FeedStart};
use cdb_model::operation::BatchError;
use cdb_model::{Batch, Document as _, Patch, Query};

use super::archive::EventArchive;
use super::feed::EventFeed;
use super::read::read_events;
use crate::error::WorkError;
use crate::memory::plan::advance_event_head;
use crate::streams::documents::{
    EventHeadKey, EventSnapshot, EventSnapshotKey, StreamEvent, StreamEventKey, Work,
};
use crate::streams::partitions::Partitions;
use cdb_coordination::lease::{execute_fenced_once, is_lost_race};
use cdb_coordination::message::MessageContext;

/// Appends and reads events. Cheap to clone.
///
/// ```
/// use cdb_work::NewEvent;
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_work(async |work| {
///
/// let events = work.events();
/// let version = events.append("order-7", 0, vec![NewEvent::new("placed", "{}")]).await?;
/// events.append("order-7", version, vec![NewEvent::new("paid", "{}")]).await?;
/// assert_eq!(events.read("order-7", version, 100).await?[0].kind, "paid");
/// # work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct EventStore {
    container: ContainerClient<Work>,
    partitions: Partitions,
}

/// An event to append.
#[derive(Clone, Debug)]
pub struct NewEvent {
    kind: String,
    body: String,
    context: MessageContext,
}

impl NewEvent {
    /// An event with its kind and content, usually JSON text.
    pub fn new(kind: impl Into<String>, body: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            body: body.into(),
            context: MessageContext::current(),
        }
    }

    /// Adds a header. Trace headers and the scope are inherited from the message that is being
    /// handled.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.context.headers.insert(name.into(), value.into());
        self
    }
}

/// How often an append with an automatic version is tried while other writers append.
const TRIES: u32 = 20;

/// The number of events that one batch deletes.
const DELETED_AT_ONCE: u32 = 100;

impl EventStore {
    pub(crate) fn new(container: ContainerClient<Work>, partitions: Partitions) -> Self {
        Self {
            container,
            partitions,
        }
    }

    /// Appends all events or none to a stream at version `expected`, 0 for a new stream. Returns
    /// the version of the last event.
    ///
    /// # Errors
    /// [`WorkError::VersionConflict`] when the stream has another version; [`WorkError::Unfit`] for
    /// more than 99 events.
    pub async fn append(
        &self,
        stream: &str,
        expected: u64,
        events: Vec<NewEvent>,
    ) -> Result<u64, WorkError> {
        let append = self.plan(stream, expected, events)?;
        if append.batch.is_empty() {
            return Ok(append.version);
        }
        let last = StreamEventKey::new(self.partition_of(stream), stream, append.version);
        let (last, token) = (&last, &append.token);
        let took_place = |latest: ContainerClient<Work>| async move {
            let last = latest.read(last).await?;
            Ok(last.is_some_and(|stored| stored.document.token == *token))
        };
        match execute_fenced_once(&self.container, &append.batch, took_place).await {
            Ok(()) => Ok(append.version),
            Err(error) if is_lost_race(&error) && error.operation_index().is_some() => {
                Err(WorkError::VersionConflict {
                    stream: stream.to_owned(),
                    expected,
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Appends all events or none to a stream, after whatever is its newest event. Returns the
    /// version of the last event. Another writer may have appended events that the caller has not
    /// read: use [`append`](Self::append) when the new events depend on the earlier ones.
    ///
    /// # Errors
    /// As for [`append`](Self::append); a version conflict only when twenty other writers were
    /// faster.
    pub async fn append_next(&self, stream: &str, events: Vec<NewEvent>) -> Result<u64, WorkError> {
        let latest = self.container.latest_committed();
        let key = EventHeadKey::new(self.partition_of(stream), stream);
        let mut tries = 0;
        loop {
            tries += 1;
            let head = latest.read(&key).await?;
            let version = head.map_or(0, |stored| stored.document.version);
            match self.append(stream, version, events.clone()).await {
                Err(WorkError::VersionConflict { .. }) if tries < TRIES => {}
                other => return other,
            }
        }
    }

    /// Returns the append as a batch for
    /// [`WorkReport::with_effects`](crate::WorkReport::with_effects). The report is refused if the
    /// stream has another version.
    ///
    /// # Errors
    /// When the events do not fit into one batch.
    pub fn to_batch(
        &self,
        stream: &str,
        expected: u64,
        events: Vec<NewEvent>,
    ) -> Result<Batch<Work>, BatchError> {
        Ok(self.plan(stream, expected, events)?.batch)
    }

    fn plan(
        &self,
        stream: &str,
        expected: u64,
        events: Vec<NewEvent>,
    ) -> Result<Append, BatchError> {
        let partition = self.partition_of(stream);
        let recorded_at = self.container.now();
        let mut append = Append {
            batch: Batch::new(partition.as_str()),
            token: uuid::Uuid::new_v4().to_string(),
            version: expected,
        };
        for event in events {
            append.version += 1;
            append.batch.add(
                StreamEvent {
                    partition: partition.clone(),
                    stream: stream.to_owned(),
                    version: append.version,
                    kind: event.kind,
                    context: Box::new(event.context),
                    body: event.body,
                    recorded_at,
                    message_id: None,
                    token: append.token.clone(),
                }
                .create(),
            )?;
        }
        if append.version == expected {
            return Ok(append);
        }
        advance_event_head(
            &mut append.batch,
            &partition,
            stream,
            expected,
            append.version,
        )?;
        Ok(append)
    }

    /// Reads up to `most` events of a stream after version `after`, in order.
    ///
    /// # Errors
    /// [`WorkError::EventsDeleted`] when the next event was deleted, or when the read fails.
    pub async fn read(
        &self,
        stream: &str,
        after: u64,
        most: u32,
    ) -> Result<Vec<StreamEvent>, WorkError> {
        let partition = self.partition_of(stream);
        read_events(&self.container, &partition, stream, after, most).await
    }

    /// Deletes the oldest events of a stream, up to and including `version`, but never the newest
    /// event. Returns the number of deleted events. After an error, the events that remain have no
    /// gaps; call again.
    ///
    /// A feed that has not reached the events skips them.
    ///
    /// # Errors
    /// When a request fails.
    pub async fn delete_up_to(&self, stream: &str, version: u64) -> Result<u64, WorkError> {
        let mut deleted = 0;
        loop {
            let events = self.oldest_up_to(stream, version).await?;
            if events.is_empty() {
                return Ok(deleted);
            }
            deleted += self.delete(&events).await?;
        }
    }

    /// As [`delete_up_to`](Self::delete_up_to), but passes the events to an archive before it
    /// deletes them, in groups of up to 100.
    ///
    /// # Errors
    /// When a request fails. [`WorkError::Unarchived`] when the archive refuses events; these and
    /// later events stay.
    pub async fn archive_up_to(
        &self,
        stream: &str,
        version: u64,
        archive: &dyn EventArchive,
    ) -> Result<u64, WorkError> {
        let mut archived = 0;
        loop {
            let events = self.oldest_up_to(stream, version).await?;
            if events.is_empty() {
                return Ok(archived);
            }
            archive
                .store(&events)
                .await
                .map_err(|failed| WorkError::Unarchived {
                    stream: stream.to_owned(),
                    reason: failed.reason().to_owned(),
                })?;
            archived += self.delete(&events).await?;
        }
    }

    /// Returns the oldest events of a stream up to `version`, without its newest event.
    async fn oldest_up_to(
        &self,
        stream: &str,
        version: u64,
    ) -> Result<Vec<StreamEvent>, WorkError> {
        let newest = self.version(stream).await?;
        let last = version.min(newest.saturating_sub(1));
        let query = Query::<StreamEvent>::in_partition(self.partition_of(stream))
            .filter(StreamEvent::STREAM.eq(stream))
            .filter(StreamEvent::VERSION.le(last))
            .order_by(StreamEvent::BY_VERSION)
            .limit(DELETED_AT_ONCE);
        let rows = self.container.latest_committed().query(query).all().await?;
        Ok(rows.into_iter().map(|row| row.document).collect())
    }

    /// Deletes events of one stream in one batch. Returns their number.
    async fn delete(&self, events: &[StreamEvent]) -> Result<u64, WorkError> {
        let Some(first) = events.first() else {
            return Ok(0);
        };
        let mut batch = Batch::new(&*first.partition);
        for event in events {
            batch.add(event.key().delete())?;
        }
        let first = &first.key();
        let took_place =
            |latest: ContainerClient<Work>| async move { Ok(latest.read(first).await?.is_none()) };
        execute_fenced_once(&self.container, &batch, took_place).await?;
        Ok(events.len() as u64)
    }

    /// Saves the state of a stream at `version`. An older snapshot is replaced, and a newer one
    /// stays.
    ///
    /// # Errors
    /// When the snapshot is too large for a document, or a request fails.
    pub async fn save_snapshot(
        &self,
        stream: &str,
        version: u64,
        body: impl Into<String>,
    ) -> Result<(), WorkError> {
        let partition = self.partition_of(stream);
        let snapshot = EventSnapshot {
            partition: partition.clone(),
            stream: stream.to_owned(),
            version,
            body: body.into(),
        };
        let key = EventSnapshotKey::new(partition, stream);
        let replace = Patch::<EventSnapshot>::new()
            .set(EventSnapshot::VERSION, version)
            .set(EventSnapshot::BODY, snapshot.body.clone())
            .when(EventSnapshot::VERSION.lt(version));
        match self.container.run(snapshot.create()).await {
            Err(error) if error.is_conflict() => {}
            created => return Ok(created.map(drop)?),
        }
        match self.container.run(replace.at(&key)).await {
            // The stored snapshot is as new or newer.
            Err(error) if error.is_precondition_failed() => Ok(()),
            replaced => Ok(replaced.map(drop)?),
        }
    }

    /// Returns the newest snapshot of a stream.
    ///
    /// # Errors
    /// When the read fails.
    pub async fn snapshot(&self, stream: &str) -> Result<Option<EventSnapshot>, WorkError> {
        let key = EventSnapshotKey::new(self.partition_of(stream), stream);
        let read = self.container.read(&key).await?;
        Ok(read.map(|stored| stored.document))
    }

    /// Returns the version of a stream's newest event; 0 without events.
    ///
    /// # Errors
    /// When the read fails.
    pub async fn version(&self, stream: &str) -> Result<u64, WorkError> {
        let key = EventHeadKey::new(self.partition_of(stream), stream);
        let read = self.container.read(&key).await?;
        Ok(read.map_or(0, |stored| stored.document.version))
    }

    /// Follows the events of all streams by the change feed: each at least once, in one order per
    /// virtual partition ([`FeedEvent::sequence`](crate::FeedEvent::sequence)), without an order
    /// between partitions. `docs/event-store.md` has the reasons.
    pub fn follow(&self, start: FeedStart) -> EventFeed {
        EventFeed::new(self.container.change_feed(start))
    }

    /// Resumes a feed at its cursor.
    pub fn follow_on(&self, cursor: FeedCursor) -> EventFeed {
        EventFeed::new(self.container.resume_change_feed(cursor))
    }

    fn partition_of(&self, stream: &str) -> String {
        self.partitions.name(self.partitions.of_stream(stream))
    }
}

/// An append with its proof.
struct Append {
    batch: Batch<Work>,
    token: String,
    /// The version of the last event.
    version: u64,
}
