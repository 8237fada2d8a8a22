//! Receives the messages of one partition, stream by stream.
//!
//! In each stream only the message after the last received one is handled. The search is a hint.
//! The record of the stream decides, and the receipt replaces it under its ETag.

use std::collections::BTreeMap;

use cdb_client::{Error, ErrorKind};
use cdb_model::container::MemberOf;
use cdb_model::operation::BulkBatch;
use cdb_model::{Container, PartitionKey, Patch, Query, Stored, Timestamp};
use tokio::sync::{Mutex, SemaphorePermit};

use super::inner::Inner;
use super::outcome::Step;
use crate::message::{Content, Incoming, MessageDocument, MessageDocumentKey, Side};
use crate::search::{Rows, in_parallel};
use crate::telemetry;
use crate::timing::{OUT_OF_ORDER_BACKOFF, RECHECK_DELAY, SILENCE_CHECK};

/// Messages per page of the search.
const PAGE: u32 = 200;

/// How many lost races with other processes end a look at a stream.
const LOSSES: u32 = 3;

/// A stream with arrived messages.
struct Arrived<'a, C> {
    partition: &'a PartitionKey,
    stream: String,
    /// By number. The search need not return all.
    waiting: BTreeMap<u64, Stored<MessageDocument<C>>>,
    seen: Option<Stored<MessageDocument<C>>>,
    /// One handler runs at a time. Streams whose next message cannot run do not wait for it.
    handler: &'a Mutex<()>,
}

impl<C> Arrived<'_, C> {
    /// All messages up to this number were received.
    fn through(&self) -> u64 {
        match self.seen.as_ref().map(|seen| seen.document.content()) {
            Some(Content::Seen(seen)) => seen.through,
            _ => 0,
        }
    }
}

pub(super) fn incoming<C>(stored: &Stored<MessageDocument<C>>) -> Option<&Incoming> {
    match stored.document.content() {
        Content::Incoming(incoming) => Some(incoming),
        _ => None,
    }
}

impl<C: Container> Inner<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    /// Receives in a partition in the background, because it may have messages.
    pub(crate) fn hint(&self, partition: PartitionKey) {
        if !self.receives() || !self.hints.note(&partition) {
            return;
        }
        self.spawn(|inner| async move {
            loop {
                let waits = match inner.hints.permits.acquire().await {
                    // The search finds its messages when the partition answers.
                    Ok(_permit) if inner.container.is_silent(&partition) => Ok(false),
                    Ok(permit) => inner.receive_with(permit, &partition).await,
                    Err(_) => return,
                };
                let waits = waits.unwrap_or_else(|error| {
                    tracing::warn!(%partition, %error, "receiving in a partition failed");
                    false
                });
                if !inner.hints.again(&partition, waits) {
                    return;
                }
                if waits {
                    tokio::time::sleep(RECHECK_DELAY).await;
                }
            }
        });
    }

    /// Receives in a partition. Gives the permit to other partitions when this one does not answer:
    /// its requests may wait for long.
    async fn receive_with(
        &self,
        permit: SemaphorePermit<'_>,
        partition: &PartitionKey,
    ) -> Result<bool, Error> {
        let receiving = self.receive_in(partition);
        tokio::pin!(receiving);
        while !self.container.is_silent(partition) {
            tokio::select! {
                biased;
                waits = &mut receiving => return waits,
                () = tokio::time::sleep(SILENCE_CHECK) => {}
            }
        }
        drop(permit);
        receiving.await
    }

    /// Receives the due messages of a partition. Returns `true` if a message claimed by this
    /// process waits for an earlier one.
    pub(crate) async fn receive_in(&self, partition: &PartitionKey) -> Result<bool, Error> {
        let query = Query::<MessageDocument<C>>::in_partition(partition)
            // A message reserved for this process is due for others a little later.
            .filter(
                MessageDocument::<C>::RECEIVE_DUE.le(self.container.now() + self.config.reserved),
            )
            .order_by(MessageDocument::<C>::BY_RECEIVE_DUE);
        let run = self.container.query(query).page_size(PAGE).row_by_row();
        let mut pages = run.pages();
        let mut waits = false;
        let handler = Mutex::new(());
        while let Some(page) = pages.next_page().await? {
            let found = Rows::apart(page);
            self.dead_letter_unreadable(Side::Inbox, &found.unreadable)
                .await;
            let mut streams: BTreeMap<String, BTreeMap<u64, Stored<MessageDocument<C>>>> =
                BTreeMap::new();
            for stored in found.rows {
                if let Some(incoming) = incoming(&stored) {
                    let envelope = &incoming.envelope;
                    let (stream, number) = (envelope.stream.clone(), envelope.number);
                    streams.entry(stream).or_default().insert(number, stored);
                }
            }
            let streams = streams.into_iter().map(|(stream, waiting)| Arrived {
                partition,
                stream,
                waiting,
                seen: None,
                handler: &handler,
            });
            let receiving = streams.map(|arrived| self.receive_stream(arrived));
            for stream_waits in in_parallel(receiving.collect()).await {
                waits |= stream_waits?;
            }
        }
        Ok(waits && !self.stop.is_cancelled())
    }

    /// Receives the arrived messages of a stream. A stream with an unreadable document waits; the
    /// others go on.
    async fn receive_stream(&self, mut arrived: Arrived<'_, C>) -> Result<bool, Error> {
        match self.receive_arrived(&mut arrived).await {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Decode => {
                let (partition, stream) = (arrived.partition, &*arrived.stream);
                tracing::error!(%partition, stream, %error, "a stream waits, because its record cannot be read");
            }
            Err(error) => return Err(error),
        }
        Ok(self.hold_back(&arrived).await)
    }

    async fn receive_arrived(&self, arrived: &mut Arrived<'_, C>) -> Result<(), Error> {
        if let Some(redriven) = arrived.waiting.remove(&0) {
            // A redriven message belongs to no stream. Its deletion with the effect is its record.
            // A redriven message has no successor that depends on the step.
            let _step = self.receive_alone(arrived, &redriven).await?;
        }
        if arrived.waiting.is_empty() {
            return Ok(());
        }
        let key = MessageDocumentKey::seen(&arrived.stream);
        arrived.seen = self
            .container
            .read(key.in_partition(arrived.partition))
            .await?;
        let mut losses = 0;
        while !self.stop.is_cancelled() {
            self.drop_duplicates(arrived).await;
            let Some(next) = self.next(arrived).await? else {
                break;
            };
            match self.receive_alone(arrived, &next).await? {
                Step::Received(seen) => arrived.seen = seen.map(|seen| *seen),
                Step::Lost if losses < LOSSES => {
                    losses += 1;
                    let reader = self.container.latest_committed();
                    arrived.seen = reader.read(key.in_partition(arrived.partition)).await?;
                }
                Step::Waits | Step::Lost => break,
            }
        }
        Ok(())
    }

    /// Receives a message while no other stream of the partition does.
    async fn receive_alone(
        &self,
        arrived: &Arrived<'_, C>,
        message: &Stored<MessageDocument<C>>,
    ) -> Result<Step<C>, Error> {
        let _one = arrived.handler.lock().await;
        if self.stop.is_cancelled() {
            return Ok(Step::Waits);
        }
        self.receive(message, arrived.seen.as_ref()).await
    }

    /// Deletes messages that were received before.
    async fn drop_duplicates(&self, arrived: &mut Arrived<'_, C>) {
        let later = arrived.waiting.split_off(&(arrived.through() + 1));
        let duplicates = std::mem::replace(&mut arrived.waiting, later);
        let mut bulk = BulkBatch::<C>::new();
        for duplicate in duplicates.values() {
            if let Err(error) = bulk.add(duplicate.delete()) {
                tracing::debug!(%error, "a duplicate was not deleted");
            }
        }
        if bulk.is_empty() {
            return;
        }
        for result in self.container.execute_bulk(&bulk).await {
            match result {
                Ok(_) => telemetry::duplicate_dropped(),
                // The next search finds it again.
                Err(error) => tracing::debug!(%error, "a duplicate was not deleted"),
            }
        }
    }

    /// Returns the next message of the stream, if it has arrived.
    async fn next(
        &self,
        arrived: &mut Arrived<'_, C>,
    ) -> Result<Option<Stored<MessageDocument<C>>>, Error> {
        let number = arrived.through() + 1;
        if let Some(next) = arrived.waiting.remove(&number) {
            return Ok(Some(next));
        }
        // The search may have missed the message: it is due later, or it has arrived since.
        let key = MessageDocumentKey::incoming(&arrived.stream, number);
        if let Some(next) = self
            .container
            .read(key.in_partition(arrived.partition))
            .await?
        {
            return Ok(Some(next));
        }
        let now = self.container.now();
        let is_overdue = |stored: &Stored<MessageDocument<C>>| {
            let incoming = incoming(stored);
            incoming.is_some_and(|incoming| {
                self.lifetimes()
                    .is_gap_closed(incoming.envelope.sent_at, now)
            })
        };
        if !arrived.waiting.values().any(is_overdue) {
            return Ok(None);
        }
        let first = self.first_of(arrived).await?;
        Ok(first.filter(is_overdue).inspect(|first| {
            if let Some(incoming) = incoming(first) {
                arrived.waiting.remove(&incoming.envelope.number);
            }
        }))
    }

    /// Returns the first arrived message of a stream, due or not.
    async fn first_of(
        &self,
        arrived: &Arrived<'_, C>,
    ) -> Result<Option<Stored<MessageDocument<C>>>, Error> {
        let query = Query::<MessageDocument<C>>::in_partition(arrived.partition)
            .filter(MessageDocument::<C>::RECEIVE_DUE.gt(Timestamp::default()));
        let found = self.container.query(query).row_by_row().all().await?;
        let of_stream = found.into_iter().flatten().filter_map(|stored| {
            let envelope = &incoming(&stored)?.envelope;
            let later = envelope.stream == arrived.stream && envelope.number > arrived.through();
            later.then_some((envelope.number, stored))
        });
        Ok(of_stream
            .min_by_key(|(number, _)| *number)
            .map(|(_, stored)| stored))
    }

    /// Postpones early messages, the longer they have waited. Returns `true` if some are claimed by
    /// this process, which should look again soon.
    async fn hold_back(&self, arrived: &Arrived<'_, C>) -> bool {
        let now = self.container.now();
        let mut bulk = BulkBatch::<C>::new();
        let mut ours = false;
        for stored in arrived.waiting.values() {
            let due = stored.document.receive_due.unwrap_or(now);
            let Some(incoming) = incoming(stored) else {
                continue;
            };
            if due > now {
                ours |= incoming.is_claimed_by(&self.me, due, now);
                continue;
            }
            let waited = now.since(incoming.envelope.sent_at);
            let delay = waited.clamp(
                OUT_OF_ORDER_BACKOFF,
                self.config.retry.longest_delay.max(OUT_OF_ORDER_BACKOFF),
            );
            let later = Patch::new()
                .set(MessageDocument::<C>::RECEIVE_DUE, Some(now + delay))
                .set(MessageDocument::<C>::CONTENT_CLAIMED_BY, None)
                .set(MessageDocument::<C>::CONTENT_STARTED, 0);
            if let Err(error) = bulk.add(later.at(stored)) {
                tracing::debug!(%error, "an early message was not postponed");
            }
        }
        telemetry::held_back(arrived.waiting.len());
        if !bulk.is_empty() {
            // An early message that is not postponed is only found sooner.
            drop(self.container.execute_bulk(&bulk).await);
        }
        ours
    }
}
