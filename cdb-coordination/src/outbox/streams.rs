//! Numbers messages: one stream for each pair of partitions, counted in the sender's partition.
//!
//! The batch that commits messages replaces the stream document under its ETag. So no two commits
//! assign the same number, and no number is left out: a missing message was sent.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_client::{ContainerClient, Error};
use cdb_model::container::MemberOf;
use cdb_model::operation::{BatchError, OperationIndex};
use cdb_model::{Batch, Container, Document as _, ETag, Stored, Timestamp};
use futures::future::try_join_all;

use super::batch::OutboxBatch;
use crate::lease::is_lost_race;
use crate::message::{
    Content, Envelope, Lifetimes, MessageAddress, MessageDocument, MessageDocumentKey, Outgoing,
    Stream,
};
use crate::retry::Tries;

/// The streams that a batch sends on, as they were read.
pub(crate) struct Streams<C>(BTreeMap<MessageAddress, Known<C>>);

struct Known<C> {
    stored: Option<Stored<MessageDocument<C>>>,
    stream: Stream,
}

/// The values that a commit needs besides its batch.
pub(crate) struct Terms<'a> {
    /// The unique token of the commit, the same for all tries.
    pub(crate) token: &'a str,
    pub(crate) now: Timestamp,
    /// How long the messages are reserved for the committing process.
    pub(crate) reserved: Duration,
    pub(crate) lifetimes: Lifetimes,
}

/// The operations of an [`OutboxBatch`] with the numbers of its messages, as one batch. Created by
/// [`Messaging::prepare`](crate::Messaging::prepare).
#[derive(Debug)]
pub struct PreparedBatch<C> {
    pub(crate) batch: Batch<C>,
    /// How many operations belong to the user. They come first.
    own: usize,
    outgoing: Vec<(OperationIndex, MessageDocument<C>)>,
    prepared_at: Timestamp,
}

impl<C: Container> Streams<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    /// Reads the streams that a batch sends on, and creates the new ones.
    pub(crate) async fn read(
        container: &ContainerClient<C>,
        batch: &OutboxBatch<C>,
    ) -> Result<Self, Error> {
        let partition = batch.partition();
        let mut targets: Vec<&MessageAddress> =
            batch.unsent().iter().map(|unsent| &unsent.to).collect();
        targets.sort();
        targets.dedup();
        let reads = targets.into_iter().map(|to| async move {
            let key = MessageDocumentKey::stream(to);
            let stored = container.read(key.in_partition(partition)).await?;
            let stream = match stored.as_ref().map(|stored| stored.document.content()) {
                Some(Content::Stream(stream)) => stream.clone(),
                _ => Stream::new(to.clone()),
            };
            Ok((to.clone(), Known { stored, stream }))
        });
        Ok(Self(try_join_all(reads).await?.into_iter().collect()))
    }

    /// The next number of each stream.
    pub(crate) fn next_numbers(&self) -> BTreeMap<MessageAddress, u64> {
        let next = |(to, known): (&MessageAddress, &Known<C>)| (to.clone(), known.stream.next);
        self.0.iter().map(next).collect()
    }

    /// Returns whether the commit `token` took place, which was first tried with the next numbers
    /// `firsts`. A commit changes all its streams together, so any stream that remembers decides.
    pub(crate) fn has_committed(
        &self,
        token: &str,
        firsts: &BTreeMap<MessageAddress, u64>,
    ) -> Option<bool> {
        self.0
            .iter()
            .filter_map(|(to, known)| Some((known, *firsts.get(to)?)))
            .find_map(|(known, first)| known.stream.has_committed(token, first))
    }

    /// Numbers the messages, and adds streams and messages to the operations of the batch.
    pub(crate) fn prepare(
        mut self,
        source: &OutboxBatch<C>,
        terms: &Terms<'_>,
    ) -> Result<PreparedBatch<C>, BatchError> {
        let mut batch = source.contents().clone();
        let own = batch.len();
        for known in self.0.values_mut() {
            known.stream.note(terms.token);
        }
        let envelopes: Vec<Envelope> = self.number(source, terms.now);
        for known in self.0.into_values() {
            let ttl = terms.lifetimes.stream_ttl();
            let document = MessageDocument::stream(source.partition().clone(), known.stream, ttl);
            match known.stored {
                Some(stored) => batch.add(document.replace().if_match(&stored.etag))?,
                None => batch.add(document.create())?,
            };
        }
        let mut outgoing = Vec::new();
        for envelope in envelopes {
            let tries = Tries::default();
            let document =
                MessageDocument::outgoing(Outgoing { envelope, tries }, terms.now + terms.reserved);
            outgoing.push((batch.add(document.create())?, document));
        }
        Ok(PreparedBatch {
            batch,
            own,
            outgoing,
            prepared_at: terms.now,
        })
    }

    fn number(&mut self, source: &OutboxBatch<C>, now: Timestamp) -> Vec<Envelope> {
        let mut envelopes = Vec::with_capacity(source.unsent().len());
        for unsent in source.unsent() {
            let Some(known) = self.0.get_mut(&unsent.to) else {
                continue;
            };
            envelopes.push(Envelope {
                stream: known.stream.name.clone(),
                number: known.stream.next,
                from: source.home().clone(),
                to: unsent.to.clone(),
                message_type: unsent.message_type.clone(),
                payload: Some(unsent.payload.clone()),
                sent_at: now,
                context: unsent.context.clone(),
            });
            known.stream.next += 1;
        }
        envelopes
    }
}

impl<C: Container> PreparedBatch<C> {
    /// The operations of the change, then those of the messages. All of them belong to one batch.
    pub fn operations(&self) -> &Batch<C> {
        &self.batch
    }

    /// Returns `true` if the batch failed because another commit used the same streams. Then prepare
    /// the outbox batch again. `operation` is the index of the failed operation among
    /// [`operations`](Self::operations).
    pub fn lost_race(&self, operation: usize, error: &Error) -> bool {
        // A unique key that another document has is refused at every attempt.
        is_lost_race(error) && operation >= self.own
    }

    /// Returns `true` if an operation of the user failed.
    pub(crate) fn is_users(&self, error: &Error) -> bool {
        error
            .operation_index()
            .is_some_and(|index| index < self.own)
    }

    /// The messages as the batch has stored them. `etag` returns the version that an operation left.
    pub(crate) fn sent(
        self,
        etag: impl Fn(OperationIndex) -> Option<ETag>,
    ) -> Vec<Stored<MessageDocument<C>>> {
        let stored = |(index, document): (OperationIndex, MessageDocument<C>)| {
            document.stored(etag(index)?, self.prepared_at)
        };
        self.outgoing.into_iter().filter_map(stored).collect()
    }
}
