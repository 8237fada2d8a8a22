//! Receives one message: claims it, runs its handler, and commits the effect with the receipt.

use cdb_client::Error;
use cdb_client::write::BatchOutcome;
use cdb_model::container::MemberOf;
use cdb_model::operation::{BatchError, OperationIndex};
use cdb_model::{Batch, Container, Document as _, DocumentKey as _, Stored, Timestamp};

use super::claim::{Claimed, Renewal};
use super::inner::Inner;
use super::outcome::{Attempted, Refusal, Step};
use super::partition::incoming;
use super::received::{Arrival, Handled};
use crate::lease::is_lost_race;
use crate::message::HandlerError;
use crate::message::{Dead, MessageDocument, Seen, Side};
use crate::outbox::{OutboxBatch, Streams, Terms};
use crate::retry::shortened;
use crate::telemetry;

/// Why a message that is too old is not received.
const TOO_OLD: &str = "it waited longer than what was received is remembered, so whether it had its effect before can \
                       no longer be told; redrive or discard it";

/// How often a handler runs again at once after the state that it had read has changed.
const STALE: u32 = 3;

/// The new record of a stream, with the operation that writes it.
type Record<C> = (OperationIndex, MessageDocument<C>);

impl<C: Container> Inner<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    /// Receives the next message of a stream. `seen` is the record of the stream.
    pub(super) async fn receive(
        &self,
        stored: &Stored<MessageDocument<C>>,
        seen: Option<&Stored<MessageDocument<C>>>,
    ) -> Result<Step<C>, Error> {
        let now = self.container.now();
        let (Some(incoming), Some(due)) = (incoming(stored), stored.document.receive_due) else {
            return Ok(Step::Waits);
        };
        let is_ours = incoming.is_claimed_by(&self.me, due, now);
        if !is_ours && due > now && !incoming.is_held_back() {
            // Another process handles the message, or it is due later.
            return Ok(Step::Waits);
        }
        let mut claimed = if is_ours {
            Claimed {
                stored: stored.clone(),
                incoming: incoming.clone(),
                seen,
            }
        } else {
            match self.claim(stored, seen).await? {
                Some(claimed) => claimed,
                None => return Ok(Step::Lost),
            }
        };
        // The message has waited for others of its partition. The handler must not begin at the end
        // of a claim.
        if claimed.remaining(now) < self.config.reserved / 4
            && self.renew(&mut claimed).await == Renewal::Lost
        {
            return Ok(Step::Lost);
        }
        let envelope = &claimed.incoming.envelope;
        if !self.lifetimes().is_receivable(envelope.sent_at, now) {
            return self
                .dead_letter_received(claimed, &HandlerError::permanently(TOO_OLD))
                .await;
        }
        if envelope.payload.is_none() {
            // The sender dead-lettered the message. Only its number has arrived.
            let nothing = OutboxBatch::new(envelope.to.clone());
            return match self.commit_receipt(&claimed, nothing).await? {
                Attempted::Step(step) => Ok(step),
                Attempted::Stale { .. } | Attempted::Failed(_) => Ok(Step::Waits),
            };
        }
        let unfinished = claimed.incoming.unfinished();
        if unfinished >= self.config.retry.max_attempts {
            let reason = format!("its handler was started {unfinished} times without a result");
            return self
                .dead_letter_received(claimed, &HandlerError::permanently(reason))
                .await;
        }
        self.handle(claimed).await
    }

    /// Runs the handler and commits its effect.
    async fn handle(&self, mut claimed: Claimed<'_, C>) -> Result<Step<C>, Error> {
        let mut tried = 0;
        let (failure, counts) = loop {
            tried += 1;
            let batch = match self.effect_of(&mut claimed).await {
                Some(Ok(batch)) => batch,
                Some(Err(failed)) => {
                    let counts = failed.counts;
                    break (failed, counts);
                }
                None => return Ok(Step::Lost),
            };
            match self.commit_receipt(&claimed, batch).await? {
                Attempted::Step(step) => return Ok(step),
                Attempted::Stale { .. } if tried < STALE => {
                    // The change that the handler has met may be the receipt of another process.
                    if self.renew(&mut claimed).await == Renewal::Lost {
                        return Ok(Step::Lost);
                    }
                }
                Attempted::Stale { reason, counts } => {
                    break (HandlerError::temporarily(reason), counts);
                }
                Attempted::Failed(failed) => break (failed, true),
            }
        };
        let exhausted = claimed.incoming.tries.counted + 1 >= self.config.retry.max_attempts;
        if failure.is_final || (counts && exhausted) {
            self.dead_letter_received(claimed, &failure).await
        } else {
            self.postpone(&claimed, &failure.reason, counts).await
        }
    }

    /// Runs the handler and checks its batch. Returns `None` when another process has claimed the message.
    async fn effect_of(&self, claimed: &mut Claimed<'_, C>) -> Option<Handled<C>> {
        let arrival = Arrival {
            envelope: claimed.incoming.envelope.clone(),
            attempt: claimed.incoming.started,
            receivers: self.receivers.clone(),
        };
        let handling = self.handlers.handle(arrival);
        let handled = self.renewing(claimed, handling).await?;
        Some(handled.and_then(|batch| {
            if *batch.home() == claimed.incoming.envelope.to {
                Ok(batch)
            } else {
                Err(HandlerError::permanently(
                    "the handler returned the batch of another message",
                ))
            }
        }))
    }

    /// Commits the effect of a message with its deletion, the record, and the sent messages.
    async fn commit_receipt(
        &self,
        claimed: &Claimed<'_, C>,
        batch: OutboxBatch<C>,
    ) -> Result<Attempted<C>, Error> {
        let unfit = |error: BatchError| {
            Ok(Attempted::Failed(HandlerError::permanently(
                error.to_string(),
            )))
        };
        let streams = Streams::read(&self.container, &batch).await?;
        let now = self.container.now();
        // Never looked up: the record of the stream tells whether a receipt took place.
        let unique = uuid::Uuid::new_v4().simple().to_string();
        let terms = Terms {
            token: &unique,
            now,
            reserved: self.config.reserved,
            lifetimes: self.lifetimes(),
        };
        let mut prepared = match streams.prepare(&batch, &terms) {
            Ok(prepared) => prepared,
            Err(error) => return unfit(error),
        };
        // By its key: after the end of the claim another process has claimed another version. The
        // first batch takes place, because the record and the deletion refuse the second.
        let removed = prepared.batch.add(claimed.stored.document.key().delete());
        let record = match removed.and_then(|_| self.record(&mut prepared.batch, claimed)) {
            Ok(record) => record,
            Err(error) => return unfit(error),
        };
        let error = match self.container.execute(&prepared.batch).await {
            Ok(outcome) => {
                telemetry::received(now.since(claimed.incoming.envelope.sent_at));
                let step = received(record, &outcome, now);
                self.hand_over(prepared.sent(|index| outcome.etag(index).cloned()));
                return Ok(Attempted::Step(step));
            }
            Err(error) => error,
        };
        Ok(match Refusal::of(&error, &prepared) {
            Refusal::Lost => Attempted::Step(Step::Lost),
            Refusal::Stale { counts } => Attempted::Stale {
                reason: error.to_string(),
                counts,
            },
            Refusal::Refused => Attempted::Failed(HandlerError::temporarily(error.to_string())),
            Refusal::Unreachable => {
                Attempted::Step(self.postpone(claimed, &error.to_string(), false).await?)
            }
        })
    }

    /// Adds the record of a receipt to the batch that deletes the message. Returns the record, if the
    /// message has a stream.
    fn record(
        &self,
        batch: &mut Batch<C>,
        claimed: &Claimed<'_, C>,
    ) -> Result<Option<Record<C>>, BatchError> {
        let envelope = &claimed.incoming.envelope;
        if envelope.number == 0 {
            return Ok(None);
        }
        let seen = Seen {
            stream: envelope.stream.clone(),
            from: envelope.from.clone(),
            through: envelope.number,
        };
        let partition = envelope.to.partition.clone();
        let document = MessageDocument::<C>::seen(partition, seen, self.lifetimes().seen_ttl());
        let index = match claimed.seen {
            Some(known) => batch.add(document.replace().if_match(&known.etag))?,
            None => batch.add(document.create())?,
        };
        Ok(Some((index, document)))
    }

    /// Stores a failed attempt. The stream waits for the next one.
    async fn postpone(
        &self,
        claimed: &Claimed<'_, C>,
        reason: &str,
        counts: bool,
    ) -> Result<Step<C>, Error> {
        telemetry::handler_retried();
        let now = self.container.now();
        let mut incoming = claimed.incoming.clone();
        incoming.tries.note(now, reason, counts);
        incoming.claimed_by = None;
        if !counts {
            incoming.started = incoming.started.saturating_sub(1);
        }
        let delay = self.config.retry.delay(incoming.tries.failed, &self.jitter);
        tracing::warn!(
            message = incoming.envelope.message_type,
            id = %incoming.envelope.id(),
            reason,
            ?delay,
            "a message was not received; it is retried"
        );
        let later = MessageDocument::<C>::incoming(incoming, now + delay);
        match self
            .container
            .run(later.replace().if_match(&claimed.stored.etag))
            .await
        {
            Ok(_) => Ok(Step::Waits),
            // The message is retried when its claim ends.
            Err(error) if error.is_precondition_failed() || error.is_not_found() => Ok(Step::Lost),
            Err(error) => Err(error),
        }
    }

    /// Turns a message into a dead letter; its stream goes on.
    async fn dead_letter_received(
        &self,
        claimed: Claimed<'_, C>,
        failure: &HandlerError,
    ) -> Result<Step<C>, Error> {
        let now = self.container.now();
        let envelope = &claimed.incoming.envelope;
        let mut tries = claimed.incoming.tries.clone();
        tries.note(now, &failure.reason, true);
        tracing::error!(
            message = envelope.message_type,
            id = %envelope.id(),
            reason = failure.reason,
            "a message was dead-lettered"
        );
        let dead = Dead {
            side: Side::Inbox,
            envelope: envelope.clone(),
            reason: shortened(&failure.reason),
            tries,
            unreadable: false,
        };
        let partition = envelope.to.partition.clone();
        let mut batch = Batch::<C>::new(&partition);
        // Only the claimed version: another process that has claimed the message may succeed.
        let record = batch
            .add(MessageDocument::<C>::dead(partition, dead, now).create())
            .and_then(|_| batch.add(claimed.stored.delete()))
            .and_then(|_| self.record(&mut batch, &claimed));
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                // The size limit of messages excludes this. If it happens, the message stays.
                tracing::error!(%error, "a message cannot become a dead letter");
                return self.postpone(&claimed, &error.to_string(), true).await;
            }
        };
        match self.container.execute(&batch).await {
            Ok(outcome) => {
                telemetry::inbox_dead_letter();
                Ok(received(record, &outcome, now))
            }
            Err(error) if error.is_ambiguous() || is_lost_race(&error) => Ok(Step::Lost),
            Err(error) => Err(error),
        }
    }
}

/// The step after a batch that wrote `record`.
fn received<C: Container>(
    record: Option<Record<C>>,
    outcome: &BatchOutcome<C>,
    now: Timestamp,
) -> Step<C> {
    let stored =
        record.and_then(|(index, document)| document.stored(outcome.etag(index)?.clone(), now));
    Step::Received(stored.map(Box::new))
}
