//! Delivers the outgoing messages of message documents.
//!
//! A delivery creates the message in its receiver's partition under an id of its own. Deliveries
//! need no order, because the receiver follows the numbers. A dead-lettered message leaves its
//! number to be delivered, so that the receiver does not wait for it.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use cdb_client::Error;
use cdb_model::container::MemberOf;
use cdb_model::operation::{BulkBatch, OperationIndex};
use cdb_model::{Batch, Container, Document as _, Query, Stored, Timestamp};
use futures::future::{join, join_all};

use super::inner::Inner;
use crate::message::{Content, Dead, Envelope, MessageDocument, Outgoing, Side};
use crate::outbox::{OutboxTransport, arrival, arriving};
use crate::retry::{DeliveryError, shortened};
use crate::search::find;
use crate::telemetry;

/// Why a message that is too old is not delivered.
const TOO_OLD: &str =
    "it waited longer than the retention, so an earlier delivery can no longer be detected";

/// The messages of one call of `deliver`, by target.
struct Sorting<C> {
    results: Vec<Result<(), DeliveryError>>,
    bulk: BulkBatch<C>,
    /// The index of each message with its operation in the bulk.
    ours: Vec<(usize, OperationIndex)>,
    /// Messages for other containers.
    away: BTreeMap<String, Vec<(usize, Envelope)>>,
}

#[async_trait]
impl<C: Container> OutboxTransport for Inner<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    type Message = Stored<MessageDocument<C>>;

    async fn deliver(
        &self,
        messages: &[Stored<MessageDocument<C>>],
        delivered: &[Stored<MessageDocument<C>>],
    ) -> Vec<Result<(), DeliveryError>> {
        let now = self.container.now();
        let mut sorting = self.sort(messages, delivered, now);
        let bulk = async {
            if sorting.bulk.is_empty() {
                return Vec::new();
            }
            self.container
                .execute_bulk_skipping_unavailable(&sorting.bulk)
                .await
        };
        let away = join_all(
            sorting
                .away
                .into_iter()
                .map(|(container, envelopes)| self.send_away(container, envelopes)),
        );
        let (answers, away) = join(bulk, away).await;
        let mut answers: Vec<_> = answers.into_iter().map(Some).collect();
        for (number, operation) in sorting.ours {
            let answer = answers.get_mut(operation.get()).and_then(Option::take);
            sorting.results[number] = match answer {
                Some(answer) => arrival(answer.map(drop)),
                None => Err(DeliveryError::unreachable("the service did not answer")),
            };
        }
        for (number, result) in away.into_iter().flatten() {
            sorting.results[number] = result;
        }
        self.after(messages, &sorting.results, now);
        sorting.results
    }

    fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    async fn find_due(&self, most: usize) -> Result<Vec<Stored<MessageDocument<C>>>, Error> {
        let query = Query::<MessageDocument<C>>::across_partitions()
            .filter(MessageDocument::<C>::SEND_DUE.le(self.container.now()))
            .order_by(MessageDocument::<C>::BY_SEND_DUE);
        let found = find(&self.container, query, most).await?;
        self.dead_letter_unreadable(Side::Outbox, &found.unreadable)
            .await;
        Ok(found.rows)
    }

    fn attempts(&self, message: &Stored<MessageDocument<C>>) -> (u32, u32) {
        outgoing(message).map_or((0, 0), |outgoing| {
            (outgoing.tries.counted, outgoing.tries.failed)
        })
    }

    async fn postpone(
        &self,
        message: &Stored<MessageDocument<C>>,
        failure: &DeliveryError,
        delay: Duration,
    ) {
        telemetry::delivery_retried();
        let Some(outgoing) = outgoing(message) else {
            return;
        };
        let now = self.container.now();
        let mut outgoing = outgoing.clone();
        outgoing
            .tries
            .note(now, &failure.to_string(), failure.counts());
        let later = MessageDocument::<C>::outgoing(outgoing, now + delay);
        let written = self
            .container
            .run(later.replace().if_match(&message.etag))
            .await;
        self.note_lost("postponed", written.map(drop));
    }

    async fn dead_letter(&self, message: &Stored<MessageDocument<C>>, failure: &DeliveryError) {
        let Some(outgoing) = outgoing(message) else {
            return;
        };
        match self.dead_letter_batch(message, outgoing, failure) {
            Ok(batch) => {
                let written = self.container.execute(&batch).await;
                if written.is_ok() {
                    telemetry::outbox_dead_letter();
                }
                self.note_lost("dead-lettered", written.map(drop));
            }
            Err(error) => tracing::warn!(%error, "a message cannot become a dead letter"),
        }
    }

    fn describe(&self, message: &Stored<MessageDocument<C>>) -> String {
        match outgoing(message).map(|outgoing| &outgoing.envelope) {
            Some(envelope) => format!(
                "{} {} from {} to {}",
                envelope.message_type,
                envelope.id(),
                envelope.from,
                envelope.to
            ),
            None => message.id.to_string(),
        }
    }
}

fn outgoing<C>(message: &Stored<MessageDocument<C>>) -> Option<&Outgoing> {
    match message.document.content() {
        Content::Outgoing(outgoing) => Some(outgoing),
        _ => None,
    }
}

impl<C: Container> Inner<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    fn sort(
        &self,
        messages: &[Stored<MessageDocument<C>>],
        delivered: &[Stored<MessageDocument<C>>],
        now: Timestamp,
    ) -> Sorting<C> {
        let mut sorting = Sorting {
            results: Vec::with_capacity(messages.len()),
            bulk: BulkBatch::new(),
            ours: Vec::new(),
            away: BTreeMap::new(),
        };
        for (number, message) in messages.iter().enumerate() {
            let result = match outgoing(message) {
                None => Err(DeliveryError::permanent("the document holds no message")),
                Some(Outgoing { envelope, .. })
                    if !self.lifetimes().is_deliverable(envelope.sent_at, now) =>
                {
                    // Only the number of a dead letter is left, and at its age no receiver waits
                    // for the number.
                    envelope
                        .payload
                        .as_ref()
                        .map_or(Ok(()), |_| Err(DeliveryError::permanent(TOO_OLD)))
                }
                Some(Outgoing { envelope, .. })
                    if envelope.to.container == self.container.name() =>
                {
                    self.put(&mut sorting, number, envelope.clone(), now)
                }
                Some(Outgoing { envelope, .. }) => {
                    let container = envelope.to.container.clone();
                    let envelopes = sorting.away.entry(container).or_default();
                    envelopes.push((number, envelope.clone()));
                    Ok(())
                }
            };
            sorting.results.push(result);
        }
        for message in delivered {
            // If another process has changed the message, that process delivers it again, which
            // changes nothing.
            if let Err(error) = sorting.bulk.add(message.delete()) {
                tracing::debug!(%error, "a delivered message was not deleted");
            }
        }
        sorting
    }

    /// Adds a message for this container to the bulk. If this process receives messages, the
    /// message is reserved for it.
    fn put(
        &self,
        sorting: &mut Sorting<C>,
        number: usize,
        envelope: Envelope,
        now: Timestamp,
    ) -> Result<(), DeliveryError> {
        let mut incoming = arriving(envelope);
        let mut due = now;
        if self.receives() {
            incoming.claimed_by = Some(self.me.clone());
            incoming.started = 1;
            due = now + self.config.reserved;
        }
        let document = MessageDocument::<C>::incoming(incoming, due);
        let operation = sorting
            .bulk
            .add(document.create())
            .map_err(|error| DeliveryError::permanent(error.to_string()))?;
        sorting.ours.push((number, operation));
        Ok(())
    }

    async fn send_away(
        &self,
        container: String,
        envelopes: Vec<(usize, Envelope)>,
    ) -> Vec<(usize, Result<(), DeliveryError>)> {
        let (numbers, envelopes): (Vec<_>, Vec<_>) = envelopes.into_iter().unzip();
        let Some(route) = self.routes.get(&container) else {
            let reason = format!(
                "there is no route to container `{container}`; add it with `MessagingBuilder::route`"
            );
            let refused = || Err(DeliveryError::refused(&*reason));
            return numbers
                .into_iter()
                .map(|number| (number, refused()))
                .collect();
        };
        let results = route.put(envelopes).await;
        numbers.into_iter().zip(results).collect()
    }

    /// Hints the partitions of this container that messages were delivered to.
    fn after(
        &self,
        messages: &[Stored<MessageDocument<C>>],
        results: &[Result<(), DeliveryError>],
        now: Timestamp,
    ) {
        for (message, result) in messages.iter().zip(results) {
            if let (Some(outgoing), Ok(())) = (outgoing(message), result) {
                let envelope = &outgoing.envelope;
                telemetry::delivered(now.since(envelope.sent_at));
                if envelope.to.container == self.container.name() {
                    self.hint(envelope.to.partition.clone());
                }
            }
        }
    }

    /// Returns the batch that turns a message into a dead letter and leaves its number to be
    /// delivered.
    fn dead_letter_batch(
        &self,
        message: &Stored<MessageDocument<C>>,
        outgoing: &Outgoing,
        failure: &DeliveryError,
    ) -> Result<Batch<C>, cdb_model::operation::BatchError> {
        let now = self.container.now();
        let partition = message.document.partition();
        let mut tries = outgoing.tries.clone();
        tries.note(now, &failure.to_string(), failure.counts());
        let dead = Dead {
            side: Side::Outbox,
            envelope: outgoing.envelope.clone(),
            reason: shortened(&failure.to_string()),
            tries,
            unreadable: false,
        };
        let mut batch = Batch::<C>::new(partition);
        if self
            .lifetimes()
            .is_deliverable(outgoing.envelope.sent_at, now)
        {
            let number_alone = Outgoing {
                envelope: outgoing.envelope.without_payload(),
                tries: outgoing.tries.clone(),
            };
            // The number cannot be delivered now either. It is retried until the retention ends.
            let delay = match &outgoing.envelope.payload {
                Some(_) => self.config.retry.first_delay,
                None => self.config.retry.longest_delay,
            };
            batch.add(
                MessageDocument::<C>::outgoing(number_alone, now + delay)
                    .replace()
                    .if_match(&message.etag),
            )?;
        } else {
            batch.add(message.delete())?;
        }
        if outgoing.envelope.payload.is_some() {
            batch.add(MessageDocument::<C>::dead(partition.clone(), dead, now).create())?;
        }
        Ok(batch)
    }

    /// Logs a failed write. The message stays as it was and is tried again.
    fn note_lost(&self, what: &str, written: Result<(), Error>) {
        if let Err(error) = written
            && !error.is_precondition_failed()
            && !error.is_not_found()
        {
            let container = self.container.name();
            tracing::debug!(container, %error, "a message was not {what}; it is tried again");
        }
    }
}
