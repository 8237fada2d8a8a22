//! The events of all streams, page by page, from the change feed.

use cdb_client::feed::{ChangeFeed, FeedCursor, FeedRow};
use cdb_model::{Stored, Timestamp};

use crate::error::WorkError;
use crate::memory::unreadable::report;
use crate::streams::documents::{StreamEvent, Work};

/// The events of all streams, page by page.
///
/// ```
/// use cdb_client::feed::FeedStart;
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

/// An event of a feed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FeedEvent {
    /// The event.
    pub document: StreamEvent,
    /// The service's number of the transaction that stored the event. Ascends within a virtual
    /// partition. The events of one batch have the same number; their streams and versions order
    /// them. Every reader sees the same numbers.
    pub sequence: u64,
    /// The service's time of the append, in whole seconds.
    pub timestamp: Timestamp,
}

impl EventFeed {
    pub(crate) fn new(feed: ChangeFeed<Work>) -> Self {
        Self { feed }
    }

    /// Returns the next events; empty while there are none. Events of one virtual partition are in
    /// the order of their [`sequence`](FeedEvent::sequence), also over calls, and so are the events
    /// of one stream. An unreadable event is logged and skipped;
    /// [`EventStore::read`](crate::EventStore::read) of its stream fails.
    ///
    /// # Errors
    /// When the feed cannot be read. Its position does not change.
    pub async fn next_events(&mut self) -> Result<Vec<FeedEvent>, WorkError> {
        loop {
            let changes = self.feed.next_rows().await?;
            if changes.is_empty() {
                return Ok(Vec::new());
            }
            let mut events: Vec<FeedEvent> = changes.into_iter().filter_map(event).collect();
            if !events.is_empty() {
                // The feed shows the writes of one batch in one page, in any order.
                events.sort_by(|one, other| place(one).cmp(&place(other)));
                return Ok(events);
            }
        }
    }

    /// The position of the feed, to resume from.
    pub fn cursor(&self) -> &FeedCursor {
        self.feed.cursor()
    }
}

fn place(event: &FeedEvent) -> (u64, &str, u64) {
    let document = &event.document;
    (event.sequence, &document.stream, document.version)
}

fn event(FeedRow { lsn, row, .. }: FeedRow<Work>) -> Option<FeedEvent> {
    let changed = row.inspect_err(report).ok()?;
    let Stored {
        document: Work::Event(document),
        timestamp,
        ..
    } = changed
    else {
        return None;
    };
    Some(FeedEvent {
        document,
        sequence: lsn,
        timestamp,
    })
}
