//! An event store in the container of the work: append on an expected version, read a stream, follow all of them.
//!
//! A stream's events lie in the partition of its messages. So events can be appended by the batch that ends the message
//! that caused them, and then exist exactly if the message has ended.

use std::collections::BTreeMap;

use cdb_client::{ChangeFeed, ContainerClient, FeedCursor, FeedStart};
use cdb_model::{Batch, BatchError, Patch, Query, Stored};

use super::documents::{EventHead, EventHeadKey, StreamEvent, StreamEventKey, Work};
use super::error::WorkError;
use super::partitions::Partitions;
use super::unreadable::report;
use crate::lease::{execute_once, is_lost_race};
use crate::search::Found;

/// Appends and reads events. Cheap to clone.
///
/// ```
/// use cdb_coordination::NewEvent;
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

/// An event to be appended.
///
/// ```
/// use cdb_coordination::NewEvent;
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_work(async |work| {
///
/// let placed = NewEvent::new("placed", r#"{"cents": 9900}"#); // contents are text, kept to the letter
/// assert_eq!(work.events().append("order-7", 0, vec![placed]).await?, 1);
/// # work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct NewEvent {
    kind: String,
    body: String,
}

impl NewEvent {
    /// An event of a kind, with its contents, usually JSON text.
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

    /// Appends events to a stream whose newest event has version `expected`, 0 for a new stream. All or none. Returns the
    /// version of the last one.
    ///
    /// # Errors
    /// [`WorkError::VersionConflict`] when the stream has another version by now; [`WorkError::Unfit`] for more events
    /// than one batch takes, 99.
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

    /// The append as a batch, to be written with the end of a message of the same stream
    /// ([`WorkReport::with_effects`](super::WorkReport::with_effects)). The report is then refused if the stream has
    /// another version.
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

    /// Up to `most` events of a stream after version `after`, in order.
    ///
    /// # Errors
    /// When they cannot be read.
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

    /// The version of a stream's newest event; 0 when it has none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn version(&self, stream: &str) -> Result<u64, WorkError> {
        let key = EventHeadKey::new(self.partition_of(stream), stream);
        let read = self.container.read(&key).await?;
        Ok(read.map_or(0, |stored| stored.document.version))
    }

    /// The events of all streams, as the change feed shows them: those of one stream in order, each at least once.
    pub fn follow(&self, start: FeedStart) -> EventFeed {
        EventFeed {
            feed: self.container.change_feed(start),
        }
    }

    /// Goes on where a feed was left.
    pub fn follow_on(&self, cursor: FeedCursor) -> EventFeed {
        EventFeed {
            feed: self.container.resume_change_feed(cursor),
        }
    }

    fn partition_of(&self, stream: &str) -> String {
        self.partitions.name(self.partitions.of_stream(stream))
    }
}

/// Events on their way.
struct Append {
    batch: Batch<Work>,
    token: String,
    /// Of the last one.
    version: u64,
}

/// The events of all streams, one page after the other.
///
/// ```
/// use cdb_client::FeedStart;
/// use cdb_coordination::NewEvent;
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
    /// The next events; empty when there are none at the moment. Those of one stream are in order, across calls too. One that
    /// cannot be read is reported and left out; [`EventStore::read`] of its stream says so.
    ///
    /// # Errors
    /// When the feed cannot be read. It stays where it was.
    pub async fn next_events(&mut self) -> Result<Vec<Stored<StreamEvent>>, WorkError> {
        loop {
            let changes = self.feed.next_rows().await?;
            if changes.is_empty() {
                return Ok(Vec::new());
            }
            let changes = Found::apart(changes);
            changes.unreadable.iter().for_each(report);
            let mut events: Vec<Stored<StreamEvent>> =
                changes.rows.into_iter().filter_map(event).collect();
            if !events.is_empty() {
                order_streams(&mut events);
                return Ok(events);
            }
        }
    }

    /// How far it was read, to go on from there later.
    pub fn cursor(&self) -> &FeedCursor {
        self.feed.cursor()
    }
}

/// Puts the events of each stream in order, and leaves streams where they are. The feed says nothing about the order of
/// what one batch wrote, but shows it in one page.
fn order_streams(events: &mut [Stored<StreamEvent>]) {
    let mut places: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        let of_stream = places.entry(event.document.stream.clone());
        of_stream.or_default().push(at);
    }
    for mut at in places.into_values() {
        // Selection, swap by swap: a page holds few events of a stream.
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
