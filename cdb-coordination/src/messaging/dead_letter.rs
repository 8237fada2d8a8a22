//! Dead letters: messages that failed for good, stored until an operator redrives or discards them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cdb_client::query::Continuation;
use cdb_client::{ContainerClient, Error, ErrorKind, Page};
use cdb_model::container::MemberOf;
use cdb_model::stored::Unreadable;
use cdb_model::{Batch, Container, Document as _, PartitionKey, Query, Stored, Timestamp};

use super::unreadable::{Partial, read_again};
use crate::endpoint::{MessagingConfig, agree_on_schema};
use crate::lease::execute_fenced_once;
use crate::message::{
    Content, Dead, Envelope, MessageAddress, MessageDocument, MessageDocumentKey, MessageId, Side,
};
use crate::outbox::{OutboxBatch, OutboxError, arriving, commit};
use crate::retry::{Attempt, Jitter};

/// A message that failed for good.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The partition that stores it: the sender's or the receiver's.
    pub partition: PartitionKey,
    /// Its id within the partition.
    pub name: String,
    /// The half that dead-lettered the message.
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
    /// When it became a dead letter.
    pub dead_lettered_at: Timestamp,
    /// The reason of the last failure.
    pub reason: String,
    /// How many attempts failed.
    pub attempts: u32,
    /// The newest failed attempts, oldest first.
    pub history: Vec<Attempt>,
    /// Whether the message could not be read when it became a dead letter, or the dead letter itself
    /// cannot be read. The payload is then the whole document.
    pub is_unreadable: bool,
}

impl DeadLetter {
    fn new<C: Container>(stored: &Stored<MessageDocument<C>>) -> Option<Self> {
        let document = &stored.document;
        let Content::Dead(dead) = document.content().clone() else {
            return None;
        };
        let at = document.dead_lettered_at.unwrap_or(stored.timestamp);
        Some(Self::of(dead, document.partition(), &document.slot, at))
    }

    pub(super) fn of(
        dead: Dead,
        partition: &PartitionKey,
        name: &str,
        dead_lettered_at: Timestamp,
    ) -> Self {
        Self {
            partition: partition.clone(),
            name: name.to_owned(),
            side: dead.side,
            id: dead.envelope.id(),
            from: dead.envelope.from,
            to: dead.envelope.to,
            message_type: dead.envelope.message_type,
            payload: dead.envelope.payload.unwrap_or_default(),
            sent_at: dead.envelope.sent_at,
            dead_lettered_at,
            reason: dead.reason,
            attempts: dead.tries.failed,
            history: dead.tries.history,
            is_unreadable: dead.unreadable,
        }
    }
}

/// Lists, redrives and discards the dead letters of a container.
///
/// ```
/// use cdb_coordination::DeadLetters;
/// use cdb_coordination::messaging::MessagingConfig;
/// use cdb_model::Timestamp;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # shop::with_shop(async |shop| {
///
/// let dead = DeadLetters::new(shop, MessagingConfig::default());
/// for letter in dead.list(Timestamp::default(), 100).await? {
///     println!("{} from {}: {}", letter.id, letter.from, letter.reason);
///     dead.redrive(&letter).await?;
/// }
/// assert_eq!(dead.count().await?, 0);
/// # Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct DeadLetters<C> {
    container: ContainerClient<C>,
    config: MessagingConfig,
}

impl<C: Container> DeadLetters<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    /// Accesses the dead letters of `container`. `config` must be the one of its messaging.
    pub fn new(container: ContainerClient<C>, config: MessagingConfig) -> Self {
        Self { container, config }
    }

    /// Returns the oldest `most` dead letters that were dead-lettered later than `after`.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn list(&self, after: Timestamp, most: u32) -> Result<Vec<DeadLetter>, Error> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Ok(self.later_than(after, most, None).await?.rows)
    }

    /// Returns a page of dead letters, oldest first, from the beginning or from the continuation of
    /// another page. A dead letter that this program cannot read
    /// [is listed as unreadable](DeadLetter::is_unreadable), without what it cannot read.
    ///
    /// # Errors
    /// When the query fails, or `from` belongs to another query.
    pub async fn page(
        &self,
        rows: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<DeadLetter>, Error> {
        self.later_than(Timestamp::default(), rows, from).await
    }

    async fn later_than(
        &self,
        after: Timestamp,
        rows: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<DeadLetter>, Error> {
        let query = Query::<MessageDocument<C>>::across_partitions()
            .filter(MessageDocument::<C>::DEAD_LETTERED_AT.gt(after))
            .order_by(MessageDocument::<C>::BY_DEAD_LETTERED_AT);
        let run = self.container.query(query).row_by_row();
        let page = run.page(rows, from).await?;
        Ok(Page {
            rows: self.letters(&page.rows),
            next: page.next,
        })
    }

    /// Counts the dead letters.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn count(&self) -> Result<u64, Error> {
        let query = Query::<MessageDocument<C>>::across_partitions()
            .filter(MessageDocument::<C>::DEAD_LETTERED_AT.gt(Timestamp::default()))
            .count();
        Ok(self.container.query(query).first().await?.unwrap_or(0))
    }

    /// Returns a dead letter by its partition and name; `None` when it was redriven or discarded.
    ///
    /// # Errors
    /// When the read fails.
    pub async fn get(
        &self,
        partition: &PartitionKey,
        name: &str,
    ) -> Result<Option<DeadLetter>, Error> {
        match self.read(partition, name).await {
            Err(error) if error.kind() == ErrorKind::Decode => {
                let query = Query::<MessageDocument<C>>::in_partition(partition)
                    .filter(MessageDocument::<C>::DEAD_LETTERED_AT.gt(Timestamp::default()));
                let found = self.container.query(query).row_by_row().all().await?;
                let mut letters = self.letters(&found).into_iter();
                Ok(letters.find(|letter| letter.name == name))
            }
            stored => Ok(stored?.as_ref().and_then(DeadLetter::new)),
        }
    }

    fn letters(&self, rows: &[Result<Stored<MessageDocument<C>>, Unreadable>]) -> Vec<DeadLetter> {
        let letter = |row: &Result<_, Unreadable>| match row {
            Ok(stored) => DeadLetter::new(stored),
            Err(unreadable) => {
                tracing::error!(%unreadable, "a dead letter cannot be read");
                unreadable_letter::<C>(unreadable, self.container.name())
            }
        };
        rows.iter().filter_map(letter).collect()
    }

    /// Sends the message of a dead letter again. An undelivered message gets a new number at the
    /// end of its stream. A delivered message goes back to its receiver out of order, because later
    /// messages of the stream were received already.
    ///
    /// The same batch deletes the dead letter, so of several callers one succeeds.
    ///
    /// # Errors
    /// [`OutboxError::Gone`] when another caller was faster; [`OutboxError::Undecided`] when an answer
    /// was lost and nothing shows what became of the message; [`OutboxError::Unreadable`] when this
    /// program cannot read the document either; [`OutboxError::NewerSchema`] when a newer release has
    /// written the container.
    pub async fn redrive(&self, letter: &DeadLetter) -> Result<(), OutboxError> {
        agree_on_schema(&self.container).await?;
        let (stored, dead) = self.find(letter).await?;
        let envelope = if dead.unreadable {
            read_again::<C>(&dead)?
        } else {
            dead.envelope
        };
        match dead.side {
            Side::Outbox => self.send_again(&stored, &envelope).await,
            Side::Inbox => self.receive_again(&stored, envelope).await,
        }
    }

    /// Deletes a dead letter.
    ///
    /// # Errors
    /// [`OutboxError::Gone`] when another caller was faster; [`OutboxError::Undecided`] when an answer
    /// was lost, so that this call or another one may have ended the dead letter.
    pub async fn discard(&self, letter: &DeadLetter) -> Result<(), OutboxError> {
        let deleted = match self.find(letter).await {
            Ok((stored, _)) => self.container.run(stored.delete()).await,
            // No other dead letter ever has its id.
            Err(OutboxError::Unreadable { .. }) => {
                let key = MessageDocumentKey::dead(&letter.name);
                self.container
                    .run(key.in_partition(&letter.partition).delete())
                    .await
            }
            Err(error) => return Err(error),
        };
        match deleted {
            Err(error) if error.is_ambiguous() => Err(OutboxError::Undecided),
            Err(error) if error.is_not_found() || error.is_precondition_failed() => {
                Err(OutboxError::Gone)
            }
            deleted => Ok(deleted?),
        }
    }

    async fn send_again(
        &self,
        stored: &Stored<MessageDocument<C>>,
        envelope: &Envelope,
    ) -> Result<(), OutboxError> {
        let mut batch = OutboxBatch::new(envelope.from.clone());
        batch.add(stored.delete())?;
        batch.send_again(envelope);
        let lifetimes = self.config.lifetimes();
        // Not reserved: the reconciler of any process delivers it.
        let jitter = Jitter::random();
        match commit(&self.container, &batch, Duration::ZERO, lifetimes, &jitter).await {
            Err(OutboxError::Failed(error)) if error.is_not_found() => Err(OutboxError::Gone),
            committed => committed.map(drop),
        }
    }

    async fn receive_again(
        &self,
        stored: &Stored<MessageDocument<C>>,
        envelope: Envelope,
    ) -> Result<(), OutboxError> {
        let now = self.container.now();
        let again = Envelope {
            stream: uuid::Uuid::new_v4().simple().to_string(),
            number: 0,
            sent_at: now,
            ..envelope
        };
        let mut batch = Batch::<C>::new(stored.document.partition());
        batch.add(stored.delete())?;
        let message = MessageDocumentKey::<C>::incoming(&again.stream, again.number);
        let message = &message.in_partition(stored.document.partition().clone());
        batch.add(MessageDocument::<C>::incoming(arriving(again), now).create())?;
        // The message has a new name, so it proves this batch. It is gone after its receipt.
        let is_gone = &AtomicBool::new(false);
        let took_place = |latest: ContainerClient<C>| async move {
            if latest.read(message).await?.is_some() {
                return Ok(true);
            }
            let is_redriven = latest.read(stored).await?.is_none();
            is_gone.store(is_redriven, Ordering::Relaxed);
            Ok(is_redriven)
        };
        match execute_fenced_once(&self.container, &batch, took_place).await {
            Ok(()) if is_gone.load(Ordering::Relaxed) => Err(OutboxError::Undecided),
            Err(error) if error.is_not_found() || error.is_conflict() => Err(OutboxError::Gone),
            executed => Ok(executed?),
        }
    }

    async fn find(
        &self,
        letter: &DeadLetter,
    ) -> Result<(Stored<MessageDocument<C>>, Dead), OutboxError> {
        let stored = match self.read(&letter.partition, &letter.name).await {
            Err(error) if error.kind() == ErrorKind::Decode => {
                let reason = error.to_string();
                return Err(OutboxError::Unreadable { reason });
            }
            stored => stored?.ok_or(OutboxError::Gone)?,
        };
        match stored.document.content().clone() {
            Content::Dead(dead) => Ok((stored, dead)),
            _ => Err(OutboxError::Gone),
        }
    }

    async fn read(
        &self,
        partition: &PartitionKey,
        name: &str,
    ) -> Result<Option<Stored<MessageDocument<C>>>, Error> {
        let key = MessageDocumentKey::dead(name);
        self.container.read(key.in_partition(partition)).await
    }
}

/// Returns the readable fields of a dead letter that cannot be read; `None` without a valid
/// partition key.
fn unreadable_letter<C: Container>(unreadable: &Unreadable, container: &str) -> Option<DeadLetter> {
    let location = unreadable.location.as_ref()?;
    let here = MessageAddress {
        container: container.to_owned(),
        partition: location.partition_key.clone(),
    };
    let written = unreadable.timestamp();
    let (_, name) = location.id.as_str().split_once(":mail:")?;
    let unknown = Partial::of(unreadable, here).dead(Side::Inbox, location, written);
    let dead = Dead {
        envelope: unknown.envelope.clone(),
        reason: unknown.reason.clone(),
        unreadable: true,
        ..unreadable.fields_at("/mail", unknown)
    };
    let at = unreadable
        .field(MessageDocument::<C>::DEAD_LETTERED_AT)
        .flatten();
    let at = at.unwrap_or(written);
    Some(DeadLetter::of(dead, &location.partition_key, name, at))
}
