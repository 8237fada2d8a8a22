//! The outbox of mail documents, as parcels of the dispatcher.
//!
//! A message is delivered by creating it in its receiver's partition under an id that is its own for ever. It need not
//! be delivered in order: its number says when it is its turn. A message that is given up leaves its number behind, so
//! that the receiver does not wait for it.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use cdb_client::Error;
use cdb_model::{Batch, BulkBatch, Container, MemberOf, OperationIndex, Query, Stored, Timestamp};
use futures::future::{join, join_all};

use super::dispatch::Carrier;
use super::retry::{Undelivered, shortened};
use super::route::{arrival, arriving};
use crate::mail::{Content, Dead, Letter, Mail, Outgoing, Side};
use crate::mailbox::Inner;
use crate::search::find;
use crate::telemetry;

/// Why a message that is too old is not delivered any more.
const TOO_OLD: &str =
    "it waited longer than the retention, so whether it had arrived before can no longer be told";

/// What one call of `deliver` knows of its parcels.
struct Sorting<C> {
    results: Vec<Result<(), Undelivered>>,
    bulk: BulkBatch<C>,
    /// Which operation of the bulk is which parcel.
    ours: Vec<(usize, OperationIndex)>,
    /// Parcels for other containers.
    away: BTreeMap<String, Vec<(usize, Letter)>>,
}

#[async_trait]
impl<C: Container> Carrier for Inner<C>
where
    Mail<C>: MemberOf<C>,
{
    type Parcel = Stored<Mail<C>>;

    async fn deliver(
        &self,
        parcels: &[Stored<Mail<C>>],
        delivered: &[Stored<Mail<C>>],
    ) -> Vec<Result<(), Undelivered>> {
        let now = self.container.now();
        let mut sorting = self.sort(parcels, delivered, now);
        let bulk = async {
            if sorting.bulk.is_empty() {
                return Vec::new();
            }
            self.container.execute_bulk(&sorting.bulk).await
        };
        let away = join_all(
            sorting
                .away
                .into_iter()
                .map(|(container, letters)| self.send_away(container, letters)),
        );
        let (answers, away) = join(bulk, away).await;
        let mut answers: Vec<_> = answers.into_iter().map(Some).collect();
        for (number, operation) in sorting.ours {
            let answer = answers.get_mut(operation.get()).and_then(Option::take);
            sorting.results[number] = match answer {
                Some(answer) => arrival(answer.map(drop)),
                None => Err(Undelivered::unreachable("the service did not answer")),
            };
        }
        for (number, result) in away.into_iter().flatten() {
            sorting.results[number] = result;
        }
        self.after(parcels, &sorting.results, now);
        sorting.results
    }

    async fn left_behind(&self, most: usize) -> Result<Vec<Stored<Mail<C>>>, Error> {
        let query = Query::<Mail<C>>::across_partitions()
            .filter(Mail::<C>::SEND_DUE.le(self.container.now()))
            .order_by(Mail::<C>::BY_SEND_DUE.asc());
        let found = find(&self.container, query, most).await?;
        self.put_aside(Side::Outbox, &found.unreadable).await;
        Ok(found.rows)
    }

    fn attempts(&self, parcel: &Stored<Mail<C>>) -> (u32, u32) {
        outgoing(parcel).map_or((0, 0), |outgoing| {
            (outgoing.tries.counted, outgoing.tries.failed)
        })
    }

    async fn postpone(&self, parcel: &Stored<Mail<C>>, failure: &Undelivered, delay: Duration) {
        telemetry::delivery_postponed();
        let Some(outgoing) = outgoing(parcel) else {
            return;
        };
        let now = self.container.now();
        let mut outgoing = outgoing.clone();
        outgoing
            .tries
            .note(now, &failure.to_string(), failure.counts());
        let later = Mail::<C>::outgoing(outgoing, now + delay);
        let written = self.container.replace_if_match(&later, &parcel.etag).await;
        self.note_lost("postponed", written.map(drop));
    }

    async fn bury(&self, parcel: &Stored<Mail<C>>, failure: &Undelivered) {
        let Some(outgoing) = outgoing(parcel) else {
            return;
        };
        match self.burial(parcel, outgoing, failure) {
            Ok(batch) => {
                let written = self.container.execute(&batch).await;
                if written.is_ok() {
                    telemetry::undeliverable();
                }
                self.note_lost("given up", written.map(drop));
            }
            Err(error) => tracing::warn!(%error, "a message cannot be given up"),
        }
    }

    fn describe(&self, parcel: &Stored<Mail<C>>) -> String {
        match outgoing(parcel).map(|outgoing| &outgoing.letter) {
            Some(letter) => format!(
                "{} {} from {} to {}",
                letter.message_type,
                letter.id(),
                letter.from,
                letter.to
            ),
            None => parcel.id.to_string(),
        }
    }
}

fn outgoing<C>(parcel: &Stored<Mail<C>>) -> Option<&Outgoing> {
    match parcel.document.content() {
        Content::Outgoing(outgoing) => Some(outgoing),
        _ => None,
    }
}

impl<C: Container> Inner<C>
where
    Mail<C>: MemberOf<C>,
{
    fn sort(
        &self,
        parcels: &[Stored<Mail<C>>],
        delivered: &[Stored<Mail<C>>],
        now: Timestamp,
    ) -> Sorting<C> {
        let mut sorting = Sorting {
            results: Vec::with_capacity(parcels.len()),
            bulk: BulkBatch::new(),
            ours: Vec::new(),
            away: BTreeMap::new(),
        };
        for (number, parcel) in parcels.iter().enumerate() {
            let result = match outgoing(parcel) {
                None => Err(Undelivered::hopeless("this is no message")),
                Some(Outgoing { letter, .. })
                    if !self.lifetimes().is_deliverable(letter.sent_at, now) =>
                {
                    // Of a message that was given up only its number is left, for which nobody waits any more.
                    letter
                        .payload
                        .as_ref()
                        .map_or(Ok(()), |_| Err(Undelivered::hopeless(TOO_OLD)))
                }
                Some(Outgoing { letter, .. }) if letter.to.container == self.container.name() => {
                    self.put(&mut sorting, number, letter.clone(), now)
                }
                Some(Outgoing { letter, .. }) => {
                    let container = letter.to.container.clone();
                    let letters = sorting.away.entry(container).or_default();
                    letters.push((number, letter.clone()));
                    Ok(())
                }
            };
            sorting.results.push(result);
        }
        for parcel in delivered {
            // Whoever has changed it meanwhile delivers it again, which changes nothing.
            sorting.bulk.delete_stored(parcel);
        }
        sorting
    }

    /// Puts a message for this container into the bulk: left to this process for a moment, if it receives messages.
    fn put(
        &self,
        sorting: &mut Sorting<C>,
        number: usize,
        letter: Letter,
        now: Timestamp,
    ) -> Result<(), Undelivered> {
        let mut incoming = arriving(letter);
        let mut due = now;
        if self.receives() {
            incoming.claimed_by = Some(self.me.clone());
            incoming.started = 1;
            due = now + self.config.reserved;
        }
        let mail = Mail::<C>::incoming(incoming, due);
        let operation = sorting
            .bulk
            .create(&mail)
            .map_err(|error| Undelivered::hopeless(error.to_string()))?;
        sorting.ours.push((number, operation));
        Ok(())
    }

    async fn send_away(
        &self,
        container: String,
        letters: Vec<(usize, Letter)>,
    ) -> Vec<(usize, Result<(), Undelivered>)> {
        let (numbers, letters): (Vec<_>, Vec<_>) = letters.into_iter().unzip();
        let Some(route) = self.routes.get(&container) else {
            let reason = format!("the mailbox has no route to container `{container}`");
            let refused = || Err(Undelivered::refused(&*reason));
            return numbers
                .into_iter()
                .map(|number| (number, refused()))
                .collect();
        };
        let results = route.put(letters).await;
        numbers.into_iter().zip(results).collect()
    }

    /// Has received what has arrived here.
    fn after(
        &self,
        parcels: &[Stored<Mail<C>>],
        results: &[Result<(), Undelivered>],
        now: Timestamp,
    ) {
        for (parcel, result) in parcels.iter().zip(results) {
            if let (Some(outgoing), Ok(())) = (outgoing(parcel), result) {
                let letter = &outgoing.letter;
                telemetry::delivered(now.since(letter.sent_at));
                if letter.to.container == self.container.name() {
                    self.hint(letter.to.partition.clone());
                }
            }
        }
    }

    /// The batch that makes a message a dead letter and leaves its number to be delivered.
    fn burial(
        &self,
        parcel: &Stored<Mail<C>>,
        outgoing: &Outgoing,
        failure: &Undelivered,
    ) -> Result<Batch<C>, cdb_model::BatchError> {
        let now = self.container.now();
        let partition = parcel.document.partition();
        let mut tries = outgoing.tries.clone();
        tries.note(now, &failure.to_string(), failure.counts());
        let dead = Dead {
            side: Side::Outbox,
            letter: outgoing.letter.clone(),
            reason: shortened(&failure.to_string()),
            tries,
            unreadable: false,
        };
        let mut batch = Batch::<C>::new(partition);
        if self
            .lifetimes()
            .is_deliverable(outgoing.letter.sent_at, now)
        {
            let number_alone = Outgoing {
                letter: outgoing.letter.without_payload(),
                tries: outgoing.tries.clone(),
            };
            // Nobody can deliver it at the moment, but it has all the time until the retention ends.
            let delay = match &outgoing.letter.payload {
                Some(_) => self.config.retry.first_delay,
                None => self.config.retry.longest_delay,
            };
            batch.replace_if_match(
                &Mail::<C>::outgoing(number_alone, now + delay),
                &parcel.etag,
            )?;
        } else {
            batch.delete_stored(parcel)?;
        }
        if outgoing.letter.payload.is_some() {
            batch.create(&Mail::<C>::dead(partition.clone(), dead, now))?;
        }
        Ok(batch)
    }

    /// What was not written is found as it was, and tried again.
    fn note_lost(&self, what: &str, written: Result<(), Error>) {
        if let Err(error) = written
            && !error.is_precondition_failed()
            && !error.is_not_found()
        {
            let container = self.container.name();
            tracing::debug!(container, %error, "a message was not {what}");
        }
    }
}
