//! Numbers for messages: a stream for each pair of partitions, counted in the sender's.
//!
//! A stream's document is replaced under its ETag in the batch that commits the messages, so two commits never give the
//! same number, and none is left out: what the receiver sees missing has been sent.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_client::{BatchOutcome, ContainerClient, Error};
use cdb_model::{Batch, BatchError, Container, MemberOf, OperationIndex, Stored, Timestamp};
use futures::future::try_join_all;

use super::batch::OutboxBatch;
use super::retry::Tries;
use crate::message::{
    Address, Content, Envelope, Lifetimes, MessageDocument, MessageDocumentKey, Outgoing, Stream,
};

/// The streams that a batch sends on, as they were read.
pub(crate) struct Streams<C>(BTreeMap<Address, Known<C>>);

struct Known<C> {
    stored: Option<Stored<MessageDocument<C>>>,
    stream: Stream,
}

/// What a commit needs to know besides its batch.
pub(crate) struct Terms<'a> {
    /// Unique for the commit, the same for all of its tries.
    pub(crate) token: &'a str,
    pub(crate) now: Timestamp,
    /// How long the messages are left to the process that commits them.
    pub(crate) reserved: Duration,
    pub(crate) lifetimes: Lifetimes,
}

/// An outbox batch as one batch of operations.
pub(crate) struct Sealed<C> {
    pub(crate) batch: Batch<C>,
    /// How many operations are the user's; they come first.
    own: usize,
    outgoing: Vec<(OperationIndex, MessageDocument<C>)>,
}

impl<C: Container> Streams<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    /// Reads the streams that a batch sends on; those that it is the first to send on begin here.
    pub(crate) async fn read(
        container: &ContainerClient<C>,
        batch: &OutboxBatch<C>,
    ) -> Result<Self, Error> {
        let partition = batch.partition();
        let mut targets: Vec<&Address> = batch.unsent().iter().map(|unsent| &unsent.to).collect();
        targets.sort();
        targets.dedup();
        let reads = targets.into_iter().map(|to| async move {
            let key = MessageDocumentKey::stream(to);
            let stored = container.read_in(partition, &key).await?;
            let stream = match stored.as_ref().map(|stored| stored.document.content()) {
                Some(Content::Stream(stream)) => stream.clone(),
                _ => Stream::new(to.clone()),
            };
            Ok((to.clone(), Known { stored, stream }))
        });
        Ok(Self(try_join_all(reads).await?.into_iter().collect()))
    }

    /// The next number of each stream.
    pub(crate) fn next_numbers(&self) -> BTreeMap<Address, u64> {
        let next = |(to, known): (&Address, &Known<C>)| (to.clone(), known.stream.next);
        self.0.iter().map(next).collect()
    }

    /// Whether the commit `token` took place, which was first tried when the next numbers were `firsts`. All streams
    /// of a commit change together, so any that remembers can tell.
    pub(crate) fn has_committed(
        &self,
        token: &str,
        firsts: &BTreeMap<Address, u64>,
    ) -> Option<bool> {
        self.0
            .iter()
            .filter_map(|(to, known)| Some((known, *firsts.get(to)?)))
            .find_map(|(known, first)| known.stream.has_committed(token, first))
    }

    /// Numbers the messages, and puts change, streams and messages into one batch.
    pub(crate) fn seal(
        mut self,
        source: &OutboxBatch<C>,
        terms: &Terms<'_>,
    ) -> Result<Sealed<C>, BatchError> {
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
                Some(stored) => batch.replace_if_match(&document, &stored.etag)?,
                None => batch.create(&document)?,
            };
        }
        let mut outgoing = Vec::new();
        for envelope in envelopes {
            let tries = Tries::default();
            let document =
                MessageDocument::outgoing(Outgoing { envelope, tries }, terms.now + terms.reserved);
            outgoing.push((batch.create(&document)?, document));
        }
        Ok(Sealed {
            batch,
            own,
            outgoing,
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
            });
            known.stream.next += 1;
        }
        envelopes
    }
}

impl<C: Container> Sealed<C> {
    /// Whether the operation that failed is the user's and not ours.
    pub(crate) fn is_users(&self, error: &Error) -> bool {
        error
            .operation_index()
            .is_some_and(|index| index < self.own)
    }

    /// Whether an operation of ours failed because somebody else was there before.
    pub(crate) fn lost_race(&self, error: &Error) -> bool {
        let raced = error.is_conflict() || error.is_precondition_failed() || error.is_not_found();
        raced && error.operation_index().is_some() && !self.is_users(error)
    }

    /// The messages as the batch has stored them.
    pub(crate) fn sent(
        self,
        outcome: &BatchOutcome<C>,
        now: Timestamp,
    ) -> Vec<Stored<MessageDocument<C>>> {
        let stored = |(index, document): (OperationIndex, MessageDocument<C>)| {
            document.stored(outcome.etag(index)?.clone(), now)
        };
        self.outgoing.into_iter().filter_map(stored).collect()
    }
}
