//! The messages that failed and are retried, before they are delivered, received or dead-lettered.

use cdb_client::query::Continuation;
use cdb_client::{ContainerClient, Error, ErrorKind, Page};
use cdb_model::container::MemberOf;
use cdb_model::query::Filter;
use cdb_model::{Container, PartitionKey, Query, Stored, Timestamp};

use crate::message::{
    Content, MessageAddress, MessageDocument, MessageDocumentKey, MessageId, Side,
};
use crate::retry::{Attempt, Tries};

/// The error of an attempt without a result.
const ENDED: &str = "its process ended before the handler returned a result";

/// A message whose last attempt failed and that is retried.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RetryingMessage {
    /// The partition that stores it: the sender's or the receiver's.
    pub partition: PartitionKey,
    /// Its id within the partition. Its dead letter has the same name.
    pub name: String,
    /// The half that retries: the outbox delivers, the inbox receives.
    pub side: Side,
    /// The message's id.
    pub id: MessageId,
    /// The sending partition.
    pub from: MessageAddress,
    /// The receiving partition.
    pub to: MessageAddress,
    /// The stored name of its type.
    pub message_type: String,
    /// The payload as JSON text.
    pub payload: String,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// How many attempts failed.
    pub attempts: u32,
    /// The newest failed attempts, oldest first.
    pub history: Vec<Attempt>,
    /// The last error. An attempt whose process ended has no time of its own.
    pub last_error: Attempt,
    /// When the next attempt is due. While an attempt runs, when another process may take over.
    pub next_attempt: Timestamp,
}

impl RetryingMessage {
    /// Returns `true` if the later messages of its stream wait. A message that was redriven from an
    /// inbox belongs to no stream.
    pub fn blocks_stream(&self) -> bool {
        self.id.number > 0
    }

    fn new<C: Container>(stored: Stored<MessageDocument<C>>) -> Option<Self> {
        let document = stored.document;
        let failed = document.failed_attempts?;
        let name = format!("{}-{}", document.content.kind(), document.slot);
        let partition = document.partition().clone();
        let (side, envelope, tries, due) = match *document.content {
            Content::Outgoing(outgoing) => {
                let (envelope, tries) = (outgoing.envelope, outgoing.tries);
                (Side::Outbox, envelope, tries, document.send_due?)
            }
            Content::Incoming(incoming) => {
                let (envelope, tries) = (incoming.envelope, incoming.tries);
                (Side::Inbox, envelope, tries, document.receive_due?)
            }
            _ => return None,
        };
        Some(Self {
            partition,
            name,
            side,
            id: envelope.id(),
            attempts: failed,
            last_error: last_error(&tries, failed, envelope.sent_at),
            history: tries.history,
            next_attempt: due,
            from: envelope.from,
            to: envelope.to,
            message_type: envelope.message_type,
            payload: envelope.payload.unwrap_or_default(),
            sent_at: envelope.sent_at,
        })
    }
}

fn last_error(tries: &Tries, attempts: u32, sent_at: Timestamp) -> Attempt {
    let last = tries.history.last().cloned();
    let mut last = last.unwrap_or(Attempt {
        at: sent_at,
        reason: String::new(),
    });
    if attempts > tries.failed {
        ENDED.clone_into(&mut last.reason);
    }
    last
}

/// Lists and counts the messages of a container that failed and are retried. A message leaves the
/// list when it succeeds or becomes a [dead letter](crate::DeadLetters).
///
/// ```
/// use cdb_coordination::message::Side;
/// use cdb_coordination::messaging::Retrying;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # shop::with_shop(async |shop| {
///
/// let retrying = Retrying::new(shop);
/// for message in retrying.page(Side::Inbox, 100, None).await?.rows {
///     println!("{} to {}: {}", message.message_type, message.to, message.last_error.reason);
/// }
/// assert_eq!(retrying.count(Side::Inbox).await?, 0);
/// # Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Retrying<C> {
    container: ContainerClient<C>,
}

impl<C: Container> Retrying<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    /// Accesses the messages of `container` that are retried.
    pub fn new(container: ContainerClient<C>) -> Self {
        Self { container }
    }

    /// Returns a page of messages, the next attempt first, from the beginning or from the
    /// continuation of another page. A message that cannot be read is left out: it becomes a dead
    /// letter at once.
    ///
    /// # Errors
    /// When the query fails, or `from` belongs to another query.
    pub async fn page(
        &self,
        side: Side,
        rows: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<RetryingMessage>, Error> {
        let order = match side {
            Side::Outbox => MessageDocument::<C>::BY_SEND_DUE,
            Side::Inbox => MessageDocument::<C>::BY_RECEIVE_DUE,
        };
        let query = failed::<C>(side).order_by(order);
        let page = self.container.query(query).row_by_row();
        let page = page.page(rows, from).await?;
        let messages = page.rows.into_iter().flatten();
        Ok(Page {
            rows: messages.filter_map(RetryingMessage::new).collect(),
            next: page.next,
        })
    }

    /// Returns a message by its partition and name; `None` when it is not retried, or cannot be read.
    ///
    /// # Errors
    /// When the read fails.
    pub async fn get(
        &self,
        partition: &PartitionKey,
        name: &str,
    ) -> Result<Option<RetryingMessage>, Error> {
        let Some((kind @ ("in" | "out"), slot)) = name.split_once('-') else {
            return Ok(None);
        };
        let key = MessageDocumentKey::<C>::new(kind, slot);
        match self.container.read(key.in_partition(partition)).await {
            Err(error) if error.kind() == ErrorKind::Decode => Ok(None),
            stored => Ok(stored?.and_then(RetryingMessage::new)),
        }
    }

    /// Counts the messages. Each of an inbox blocks its stream, unless it was redriven.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn count(&self, side: Side) -> Result<u64, Error> {
        let counted = self.container.query(failed::<C>(side).count());
        Ok(counted.first().await?.unwrap_or(0))
    }
}

/// Queries the messages of one half that have failed. Both conditions read an index.
fn failed<C: Container>(side: Side) -> Query<MessageDocument<C>> {
    let is_waiting: Filter<MessageDocument<C>> = match side {
        Side::Outbox => MessageDocument::<C>::SEND_DUE.gt(Timestamp::default()),
        Side::Inbox => MessageDocument::<C>::RECEIVE_DUE.gt(Timestamp::default()),
    };
    Query::across_partitions().filter(is_waiting & MessageDocument::<C>::FAILED_ATTEMPTS.gt(0))
}

#[cfg(test)]
mod tests {
    use cdb_model::query::Explain as _;

    use super::*;
    use crate::message::{Envelope, Incoming};

    #[derive(Container)]
    #[container(partition_key = "/place")]
    enum Shop {
        Message(MessageDocument<Shop>),
    }

    #[test]
    fn an_index_serves_the_list_and_the_count_of_both_halves() {
        let policy = Shop::definition().indexing_policy;
        for side in [Side::Outbox, Side::Inbox] {
            let explained = failed::<Shop>(side).explain(&policy);
            assert!(explained.is_narrowed(), "{explained}");
        }
    }

    #[test]
    fn an_attempt_whose_process_ended_counts_when_the_next_one_has_started() {
        let address = |place: &str| MessageAddress {
            container: "shop".to_owned(),
            partition: place.into(),
        };
        let started = |started| {
            let incoming = Incoming {
                envelope: Envelope {
                    stream: "s".to_owned(),
                    number: 1,
                    from: address("ann"),
                    to: address("bob"),
                    message_type: "note".to_owned(),
                    payload: None,
                    sent_at: Timestamp::from_millis(1),
                    context: crate::message::MessageContext::default(),
                },
                claimed_by: None,
                started,
                tries: Tries::default(),
            };
            let due = Timestamp::from_millis(2);
            let document = MessageDocument::<Shop>::incoming(incoming, due);
            let stored = document.stored(cdb_model::ETag::new("1"), due);
            RetryingMessage::new(stored.expect("a valid id"))
        };
        assert!(started(1).is_none(), "the first attempt runs");
        let message = started(2).expect("it is retried");
        assert_eq!((message.attempts, &*message.last_error.reason), (1, ENDED));
    }
}
