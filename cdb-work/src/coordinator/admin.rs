//! The failed messages of a container, for administrators: those that are retried, and those that are
//! dead.
//!
//! Every operation is one conditional write. Any process may redrive or discard a message; the
//! holder of its partition notices with its next sweep.

use std::time::Duration;

use cdb_client::query::Continuation;
use cdb_client::{ContainerClient, Error, ErrorKind, Page};
use cdb_model::query::Filter;
use cdb_model::{Batch, Patch, Query, Timestamp};

use crate::config::{WorkConfig, seconds};
use crate::error::WorkError;
use crate::memory::plan::{message_key, stream_key};
use crate::memory::unreadable::partial;
use crate::streams::documents::{Work, WorkMessage, WorkMessageKey, WorkStream};
use crate::streams::status::WorkStatus;
use crate::streams::stream::StreamKey;

/// Lists the failed messages of a container, and redrives or discards them. Takes no partitions, so a
/// tool can use it beside coordinators.
///
/// Each failed message holds its stream: the later messages of its lane wait.
///
/// ```
/// use cdb_client::ContainerClient;
/// use cdb_work::{Work, WorkAdmin};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_container("work", async |container: ContainerClient<Work>| {
///
/// let admin = WorkAdmin::new(container);
/// for message in admin.retrying(100, None).await?.rows {
///     println!("{} failed {} times: {:?}", message.message_id, message.attempts, message.last_failure);
/// }
/// for message in admin.dead_letters(100, None).await?.rows {
///     admin.redrive(&message).await?;
/// }
/// assert_eq!(admin.counts().await?.dead, 0);
/// # Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct WorkAdmin {
    container: ContainerClient<Work>,
    remember: Duration,
}

/// The number of messages by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkCounts {
    /// Messages that are due or wait for an earlier one of their stream.
    pub waiting: u64,
    /// Since when the oldest of them waits.
    pub oldest: Option<Timestamp>,
    /// Those among them that failed and are retried.
    pub retrying: u64,
    /// Messages that failed too often and wait for an operator.
    pub dead: u64,
}

impl WorkCounts {
    /// The number of streams that are blocked by a failed message. A stream has at most one.
    pub fn blocked_streams(&self) -> u64 {
        self.retrying + self.dead
    }
}

impl WorkAdmin {
    /// Accesses the messages of `container`.
    pub fn new(container: ContainerClient<Work>) -> Self {
        Self {
            container,
            remember: WorkConfig::default().remember,
        }
    }

    /// Sets how long a discarded message is remembered; as
    /// [`WorkConfig::remember`](crate::WorkConfig::remember) by default.
    #[must_use]
    pub fn remember(mut self, duration: Duration) -> Self {
        self.remember = duration;
        self
    }

    /// Returns a page of the messages that failed and are retried, the longest waiting first, from the
    /// beginning or from the continuation of another page.
    ///
    /// # Errors
    /// When the query fails, or `from` belongs to another query.
    pub async fn retrying(
        &self,
        rows: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<WorkMessage>, Error> {
        let query = retrying().order_by(WorkMessage::BY_WAITING);
        self.page(query, rows, from).await
    }

    /// Returns a page of the messages that failed too often, the oldest first, with the reason of
    /// the last failure. An unreadable message has the fields that can be read, and the whole
    /// document as its body.
    ///
    /// # Errors
    /// When the query fails, or `from` belongs to another query.
    pub async fn dead_letters(
        &self,
        rows: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<WorkMessage>, Error> {
        let query = all_dead().order_by(WorkMessage::DEAD_SINCE.asc());
        self.page(query, rows, from).await
    }

    /// Reads a message that failed too often, as [`dead_letters`](Self::dead_letters) does. Returns `None` when
    /// the message is not dead.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn dead_letter(&self, key: &WorkMessageKey) -> Result<Option<WorkMessage>, Error> {
        match self.container.read(key).await {
            Ok(found) => {
                let found = found.map(|stored| stored.document);
                return Ok(found.filter(|message| message.dead_since.is_some()));
            }
            Err(error) if error.kind() == ErrorKind::Decode => {}
            Err(error) => return Err(error),
        }
        // A query returns the readable fields.
        let query = Query::in_partition(&*key.partition)
            .filter(WorkMessage::MESSAGE_ID.eq(&*key.message_id) & is_dead());
        let mut from = None;
        loop {
            let page = self.page(query.clone(), 100, from.as_ref()).await?;
            let mut rows = page.rows.into_iter();
            let found = rows.find(|message| message_key(message) == *key);
            if found.is_some() || page.next.is_none() {
                return Ok(found);
            }
            from = page.next;
        }
    }

    async fn page(
        &self,
        query: Query<WorkMessage>,
        rows: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<WorkMessage>, Error> {
        let run = self.container.query(query).row_by_row();
        let page = run.page(rows, from).await?;
        let messages = page.rows.into_iter().filter_map(|row| match row {
            Ok(row) => Some(row.document),
            Err(unreadable) => partial(&unreadable),
        });
        Ok(Page {
            rows: messages.collect(),
            next: page.next,
        })
    }

    /// Counts the messages. Each count reads an index of every physical partition.
    ///
    /// # Errors
    /// When a query fails.
    pub async fn counts(&self) -> Result<WorkCounts, Error> {
        let now = self.container.now();
        let waiting = || {
            Query::<WorkMessage>::across_partitions()
                .filter(WorkMessage::WAITING_SINCE.between(Timestamp::from_millis(1), now))
        };
        let oldest = waiting().order_by(WorkMessage::BY_WAITING).limit(1);
        let container = &self.container;
        let (waiting, oldest, retrying, dead) = futures::try_join!(
            container.query(waiting().count()).first(),
            container
                .query(oldest.values(WorkMessage::WAITING_SINCE))
                .first(),
            container.query(retrying().count()).first(),
            container.query(all_dead().count()).first(),
        )?;
        Ok(WorkCounts {
            waiting: waiting.unwrap_or_default(),
            oldest: oldest.flatten(),
            retrying: retrying.unwrap_or_default(),
            dead: dead.unwrap_or_default(),
        })
    }

    /// Retries a message that is dead, with all its attempts.
    ///
    /// # Errors
    /// [`WorkError::NotDead`] when the message is not dead, or no longer.
    pub async fn redrive(&self, message: &WorkMessage) -> Result<(), WorkError> {
        let container = &self.container;
        let now = container.now();
        let patch = Patch::<WorkMessage>::new()
            .set(WorkMessage::WAITING_SINCE, Some(now))
            .set(WorkMessage::DUE_AT, now)
            .set(WorkMessage::ATTEMPTS, 0)
            .set(WorkMessage::STARTED_UNDER, None)
            .set(WorkMessage::DEAD_SINCE, None)
            .when(is_dead_since(message));
        let patched = container.run(patch.at(&message_key(message))).await;
        refused(patched.map(drop), message)
    }

    /// Completes a message that is dead without handling it: its stream goes on.
    ///
    /// # Errors
    /// [`WorkError::NotDead`] when the message is not dead, or no longer.
    pub async fn discard(&self, message: &WorkMessage) -> Result<(), WorkError> {
        let key = StreamKey::new(message.lane, &message.stream);
        let ended = Patch::<WorkMessage>::new()
            .set(WorkMessage::STATUS, message.status | WorkStatus::SKIPPED)
            .set(WorkMessage::BODY, String::new())
            .set(WorkMessage::DEAD_SINCE, None)
            .set(WorkMessage::TTL, Some(seconds(self.remember)))
            .when(is_dead_since(message));
        let next = Patch::<WorkStream>::new()
            .set(WorkStream::DONE, message.sequence)
            .set(WorkStream::TOUCHED, self.container.now())
            .when(WorkStream::DONE.eq(message.sequence - 1));
        let mut batch = Batch::<Work>::new(message.partition.as_str());
        batch.add(ended.at(&message_key(message)))?;
        batch.add(next.at(&stream_key(&key, &message.partition)))?;
        let executed = self.container.execute(&batch).await;
        refused(executed.map(drop), message)
    }
}

/// Queries the messages that are retried. Earlier versions leave the mark on a completed message, so
/// the message must also wait.
fn retrying() -> Query<WorkMessage> {
    let is_waiting = WorkMessage::WAITING_SINCE.gt(Timestamp::default());
    let is_retried = WorkMessage::RETRYING.eq(true);
    Query::across_partitions().filter(is_waiting & is_retried)
}

fn all_dead() -> Query<WorkMessage> {
    Query::across_partitions().filter(is_dead())
}

/// Matches the messages that are dead. Not by `is_defined`: null, which is also the value after
/// a decision, comes first.
fn is_dead() -> Filter<WorkMessage> {
    WorkMessage::DEAD_SINCE.gt(Timestamp::default())
}

/// Matches the time at which the message became dead, not a later one.
fn is_dead_since(message: &WorkMessage) -> Filter<WorkMessage> {
    match message.dead_since {
        Some(since) => WorkMessage::DEAD_SINCE.eq(since),
        None => Filter::none(),
    }
}

fn refused(result: Result<(), Error>, message: &WorkMessage) -> Result<(), WorkError> {
    match result {
        Err(error) if error.is_precondition_failed() || error.is_not_found() => {
            Err(WorkError::NotDead {
                message_id: message.message_id.clone(),
            })
        }
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use cdb_model::Container as _;
    use cdb_model::query::Explain as _;

    use super::*;

    #[test]
    fn an_index_serves_the_lists_and_the_counts() {
        let policy = Work::definition().indexing_policy;
        for query in [retrying(), all_dead()] {
            let explained = query.explain(&policy);
            assert!(explained.is_narrowed(), "{explained}");
        }
    }
}
