//! An event store in the container of the work: append at an expected version, read a stream,
//! follow all streams.
//!
//! The events of a stream are in the partition of its messages. So the batch that completes a
//! message can append events, which then exist if and only if the message is completed.

use std::collections::BTreeMap;

use cdb_client::{ChangeFeed, ContainerClient, FeedCursor, FeedStart};
use cdb_model::{Batch, BatchError, Patch, Query, Stored};

use super::documents::{EventHead, EventHeadKey, StreamEvent, StreamEventKey, Work};
use super::error::WorkError;
use super::partitions::Partitions;
use super::unreadable::report;
use cdb_coordination::Rows;
use cdb_coordination::{execute_once, is_lost_race};

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
///
/// ```
/// use cdb_work::NewEvent;
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_work(async |work| {
///
/// let placed = NewEvent::new("placed", r#"{"cents": 9900}"#); // the content is stored as text
/// assert_eq!(work.events().append("order-7", 0, vec![placed]).await?, 1);
/// # work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct NewEvent {
    kind: String,
    body: String,
}

impl NewEvent {
    /// An event with its kind and content, usually JSON text.
    pub fn new(kind: impl Into<String>, body: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            body: body.into(),
        }
    }
}

impl EventStore {
    pub(super) fn new(container: ContainerClient<Work>, partitions: Partitions) -> Self {
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
        match execute_once(&self.container, &append.batch, took_place).await {
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

    /// Returns the append as a batch for
    /// [`WorkReport::with_effects`](super::WorkReport::with_effects). The report is refused if the
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
            append.batch.create(&StreamEvent {
                partition: partition.clone(),
                stream: stream.to_owned(),
                version: append.version,
                kind: event.kind,
                body: event.body,
                recorded_at,
                token: append.token.clone(),
            })?;
        }
        if append.version == expected {
            return Ok(append);
        }
        if expected == 0 {
            append.batch.create(&EventHead {
                partition,
                stream: stream.to_owned(),
                version: append.version,
            })?;
        } else {
            let patch = Patch::<EventHead>::new()
                .set(EventHead::VERSION, append.version)
                .when(EventHead::VERSION.eq(expected));
            append
                .batch
                .patch(&EventHeadKey::new(partition, stream), &patch)?;
        }
        Ok(append)
    }

    /// Reads up to `most` events of a stream after version `after`, in order.
    ///
    /// # Errors
    /// When the read fails.
    pub async fn read(
        &self,
        stream: &str,
        after: u64,
        most: u32,
    ) -> Result<Vec<StreamEvent>, WorkError> {
        let query = Query::<StreamEvent>::in_partition(self.partition_of(stream))
            .filter(StreamEvent::STREAM.eq(stream))
            .filter(StreamEvent::VERSION.gt(after))
            .order_by(StreamEvent::BY_VERSION.asc())
            .top(most);
        let rows = self.container.query(query).all().await?;
        Ok(rows.into_iter().map(|row| row.document).collect())
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

    /// Follows the events of all streams by the change feed: in order within a stream, each at
    /// least once.
    pub fn follow(&self, start: FeedStart) -> EventFeed {
        EventFeed {
            feed: self.container.change_feed(start),
        }
    }

    /// Resumes a feed at its cursor.
    pub fn follow_on(&self, cursor: FeedCursor) -> EventFeed {
        EventFeed {
            feed: self.container.resume_change_feed(cursor),
        }
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

/// The events of all streams, page by page.
///
/// ```
/// use cdb_client::FeedStart;
/// use cdb_work::NewEvent;
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_work(async |work| {
///
/// let events = work.events();
/// events.append("order-7", 0, vec![NewEvent::new("placed", "{}")]).await?;
/// let mut feed = events.follow(FeedStart::Beginning);
/// let seen = feed.next_events().await?;
/// assert_eq!(seen[0].document.kind, "placed");
/// # work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct EventFeed {
    feed: ChangeFeed<Work>,
}

impl EventFeed {
    /// Returns the next events; empty while there are none. Events of one stream are in order, also
    /// over calls. An unreadable event is logged and skipped; [`EventStore::read`] of its stream
    /// fails.
    ///
    /// # Errors
    /// When the feed cannot be read. Its position does not change.
    pub async fn next_events(&mut self) -> Result<Vec<Stored<StreamEvent>>, WorkError> {
        loop {
            let changes = self.feed.next_rows().await?;
            if changes.is_empty() {
                return Ok(Vec::new());
            }
            let changes = Rows::apart(changes);
            changes.unreadable.iter().for_each(report);
            let mut events: Vec<Stored<StreamEvent>> =
                changes.rows.into_iter().filter_map(event).collect();
            if !events.is_empty() {
                order_streams(&mut events);
                return Ok(events);
            }
        }
    }

    /// The position of the feed, to resume from.
    pub fn cursor(&self) -> &FeedCursor {
        self.feed.cursor()
    }
}

/// Sorts the events of each stream in place. The feed shows the writes of one batch in one page, in
/// any order.
fn order_streams(events: &mut [Stored<StreamEvent>]) {
    let mut places: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        let of_stream = places.entry(event.document.stream.clone());
        of_stream.or_default().push(at);
    }
    for mut at in places.into_values() {
        // Selection sort: a page has few events of a stream.
        while let Some((&first, _)) = at.split_first() {
            let smallest = at
                .iter()
                .copied()
                .min_by_key(|&place| events[place].document.version);
            events.swap(first, smallest.unwrap_or(first));
            at.remove(0);
        }
    }
}

fn event(change: Stored<Work>) -> Option<Stored<StreamEvent>> {
    let Stored {
        id,
        document: Work::Event(event),
        etag,
        timestamp,
    } = change
    else {
        return None;
    };
    Some(Stored {
        id,
        document: event,
        etag,
        timestamp,
    })
}
