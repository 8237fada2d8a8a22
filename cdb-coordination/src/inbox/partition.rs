//! What there is to receive in one partition, stream by stream.
//!
//! Of a stream only the message after the last one received is taken, whatever else has arrived. The search is a hint:
//! the record of the stream decides, and it is written under its ETag with the effect.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_client::{Error, ErrorKind};
use cdb_model::{BulkBatch, Container, MemberOf, PartitionKey, Patch, Query, Stored, Timestamp};

use super::outcome::Step;
use crate::message::{Content, Incoming, MessageDocument, MessageDocumentKey, Side};
use crate::messaging::Inner;
use crate::telemetry;

/// Messages that are looked at together.
const PAGE: u32 = 200;

/// How long an early message waits at least until it is looked at again. Who receives the one before it does not wait.
const EARLY: Duration = Duration::from_secs(1);

/// How soon to look again for messages that are left to this process and wait for earlier ones.
const SOON: Duration = Duration::from_millis(50);

/// How often one look is given up to others who receive the same stream.
const LOSSES: u32 = 3;

/// A stream with messages that have arrived.
struct Arrived<'a, C> {
    partition: &'a PartitionKey,
    stream: String,
    /// By number; those that were searched for, which need not be all.
    waiting: BTreeMap<u64, Stored<MessageDocument<C>>>,
    seen: Option<Stored<MessageDocument<C>>>,
}

impl<C> Arrived<'_, C> {
    /// Everything up to this number was received.
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
    /// A partition has something to receive, perhaps.
    pub(crate) fn hint(&self, partition: PartitionKey) {
        if !self.receives() || !self.hints.note(&partition) {
            return;
        }
        self.spawn(|inner| async move {
            loop {
                let waits = match inner.hints.permits.acquire().await {
                    Ok(_permit) => inner.receive_in(&partition).await,
                    Err(_) => return,
                };
                let waits = waits.unwrap_or_else(|error| {
                    tracing::warn!(%partition, %error, "messages cannot be received");
                    false
                });
                if !inner.hints.again(&partition, waits) {
                    return;
                }
                if waits {
                    tokio::time::sleep(SOON).await;
                }
            }
        });
    }

    /// Receives what is due in a partition. Returns whether something is left to this process that has to wait for an
    /// earlier message.
    pub(crate) async fn receive_in(&self, partition: &PartitionKey) -> Result<bool, Error> {
        let query = Query::<MessageDocument<C>>::in_partition(partition)
            // What is left to this process is due for others a little later.
            .filter(
                MessageDocument::<C>::RECEIVE_DUE.le(self.container.now() + self.config.reserved),
            )
            .order_by(MessageDocument::<C>::BY_RECEIVE_DUE.asc());
        let run = self.container.query(query).page_size(PAGE).row_by_row();
        let mut pages = run.pages();
        let mut waits = false;
        while let Some(page) = pages.next_page().await? {
            let mut streams: BTreeMap<String, BTreeMap<u64, Stored<MessageDocument<C>>>> =
                BTreeMap::new();
            for row in page {
                let stored = match row {
                    Ok(stored) => stored,
                    Err(unreadable) => {
                        self.dead_letter_unreadable(Side::Inbox, &[unreadable])
                            .await;
                        continue;
                    }
                };
                if let Some(incoming) = incoming(&stored) {
                    let envelope = &incoming.envelope;
                    let (stream, number) = (envelope.stream.clone(), envelope.number);
                    streams.entry(stream).or_default().insert(number, stored);
                }
            }
            for (stream, waiting) in streams {
                if self.stop.is_cancelled() {
                    return Ok(false);
                }
                let arrived = Arrived {
                    partition,
                    stream,
                    waiting,
                    seen: None,
                };
                waits |= self.receive_stream(arrived).await?;
            }
        }
        Ok(waits)
    }

    /// Receives a stream as far as it has arrived. One that cannot be read on waits, and the others go on.
    async fn receive_stream(&self, mut arrived: Arrived<'_, C>) -> Result<bool, Error> {
        match self.receive_arrived(&mut arrived).await {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Decode => {
                let (partition, stream) = (arrived.partition, &*arrived.stream);
                tracing::error!(%partition, stream, %error, "messages wait for a document that cannot be read");
            }
            Err(error) => return Err(error),
        }
        Ok(self.hold_back(&arrived).await)
    }

    async fn receive_arrived(&self, arrived: &mut Arrived<'_, C>) -> Result<(), Error> {
        if let Some(redriven) = arrived.waiting.remove(&0) {
            // It has left its stream, so nothing waits for it and no record tells of it: it goes with its effect.
            self.receive(&redriven, None).await?;
        }
        if arrived.waiting.is_empty() {
            return Ok(());
        }
        let key = MessageDocumentKey::seen(&arrived.stream);
        arrived.seen = self.container.read_in(arrived.partition, &key).await?;
        let mut losses = 0;
        while !self.stop.is_cancelled() {
            self.drop_duplicates(arrived).await;
            let Some(next) = self.next(arrived).await? else {
                break;
            };
            match self.receive(&next, arrived.seen.as_ref()).await? {
                Step::Received(seen) => arrived.seen = seen.map(|seen| *seen),
                Step::Lost if losses < LOSSES => {
                    losses += 1;
                    let reader = self.container.latest_committed();
                    arrived.seen = reader.read_in(arrived.partition, &key).await?;
                }
                Step::Waits | Step::Lost => break,
            }
        }
        Ok(())
    }

    /// Removes what was received before.
    async fn drop_duplicates(&self, arrived: &mut Arrived<'_, C>) {
        let later = arrived.waiting.split_off(&(arrived.through() + 1));
        let duplicates = std::mem::replace(&mut arrived.waiting, later);
        let mut bulk = BulkBatch::<C>::new();
        for duplicate in duplicates.values() {
            bulk.delete_stored(duplicate);
        }
        if bulk.is_empty() {
            return;
        }
        for result in self.container.execute_bulk(&bulk).await {
            match result {
                Ok(_) => telemetry::duplicate_dropped(),
                // The next look finds it again.
                Err(error) => tracing::debug!(%error, "a duplicate was not removed"),
            }
        }
    }

    /// The message whose turn it is, if it has arrived.
    async fn next(
        &self,
        arrived: &mut Arrived<'_, C>,
    ) -> Result<Option<Stored<MessageDocument<C>>>, Error> {
        let number = arrived.through() + 1;
        if let Some(next) = arrived.waiting.remove(&number) {
            return Ok(Some(next));
        }
        // The search may have missed it: it can be due later, or have come meanwhile.
        let key = MessageDocumentKey::incoming(&arrived.stream, number);
        if let Some(next) = self.container.read_in(arrived.partition, &key).await? {
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

    /// The first message of a stream that has arrived, due or not.
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

    /// Has early messages looked at again later, the longer they wait the later. Returns whether some are left to this
    /// process alone, which should look again soon.
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
            let delay = waited.clamp(EARLY, self.config.retry.longest_delay.max(EARLY));
            let later = Patch::new()
                .set(MessageDocument::<C>::RECEIVE_DUE, now + delay)
                .set(MessageDocument::<C>::CLAIMED_BY, None)
                .set(MessageDocument::<C>::STARTED, 0);
            if let Err(error) = bulk.patch_stored(stored, &later) {
                tracing::debug!(%error, "an early message cannot be held back");
            }
        }
        telemetry::held_back(arrived.waiting.len());
        if !bulk.is_empty() {
            // What is not held back is looked at again sooner, nothing else.
            drop(self.container.execute_bulk(&bulk).await);
        }
        ours
    }
}
