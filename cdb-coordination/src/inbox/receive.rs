//! Receiving one message: taking it up, its effect, and what happens when there is none.

use cdb_client::Error;
use cdb_model::{Batch, BatchError, Container, MemberOf, OperationIndex, Stored};

use super::handler::{Failed, Handled};
use super::outcome::{Attempted, Refusal, Step};
use super::partition::incoming;
use crate::message::{Dead, Incoming, MessageDocument, Seen, Side};
use crate::messaging::Inner;
use crate::outbox::{OutboxBatch, Streams, Terms, shortened};
use crate::telemetry;

/// Why a message that is too old is not received any more.
const TOO_OLD: &str = "it waited longer than what was received is remembered, so whether it had its effect before can \
                       no longer be told; redrive or discard it";

/// How often a handler is asked again at once when the state that it had read has changed.
const STALE: u32 = 3;

/// A message that this process has taken up.
struct Taken<'a, C> {
    stored: Stored<MessageDocument<C>>,
    incoming: Incoming,
    /// The record of its stream.
    seen: Option<&'a Stored<MessageDocument<C>>>,
}

impl<C: Container> Taken<'_, C> {
    fn batch(&self) -> OutboxBatch<C> {
        OutboxBatch::new(self.incoming.envelope.to.clone())
    }
}

impl<C: Container> Inner<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    /// Receives a message whose turn it is. `seen` is the record of its stream.
    pub(super) async fn receive(
        &self,
        stored: &Stored<MessageDocument<C>>,
        seen: Option<&Stored<MessageDocument<C>>>,
    ) -> Result<Step<C>, Error> {
        let now = self.container.now();
        let (Some(incoming), Some(due)) = (incoming(stored), stored.document.receive_due) else {
            return Ok(Step::Waits);
        };
        let taken = if incoming.is_claimed_by(&self.me, due, now) {
            Taken {
                stored: stored.clone(),
                incoming: incoming.clone(),
                seen,
            }
        } else if due > now && !incoming.is_held_back() {
            // Somebody else is at it, or it is to be tried again then.
            return Ok(Step::Waits);
        } else {
            match self.take_up(incoming, stored, seen).await? {
                Some(taken) => taken,
                None => return Ok(Step::Lost),
            }
        };
        let envelope = &taken.incoming.envelope;
        if !self.lifetimes().is_receivable(envelope.sent_at, now) {
            return self.give_up(taken, &Failed::permanently(TOO_OLD)).await;
        }
        if envelope.payload.is_none() {
            // Its sender gave it up and only its number has come.
            let nothing = taken.batch();
            return match self.commit_receipt(&taken, nothing).await? {
                Attempted::Step(step) => Ok(step),
                Attempted::Stale { .. } | Attempted::Failed(_) => Ok(Step::Waits),
            };
        }
        // Beginnings that ended neither way: their processes died, perhaps of it.
        let Incoming { started, tries, .. } = &taken.incoming;
        let in_vain = started.saturating_sub(1).saturating_sub(tries.counted);
        if in_vain >= self.config.retry.max_attempts {
            let reason = format!("it was begun {in_vain} times and never ended");
            return self.give_up(taken, &Failed::permanently(reason)).await;
        }
        self.handle(taken).await
    }

    /// Takes a message up, and counts the attempt before it begins. `None` when somebody was faster.
    async fn take_up<'a>(
        &self,
        incoming: &Incoming,
        stored: &Stored<MessageDocument<C>>,
        seen: Option<&'a Stored<MessageDocument<C>>>,
    ) -> Result<Option<Taken<'a, C>>, Error> {
        let now = self.container.now();
        let incoming = Incoming {
            claimed_by: Some(self.me.clone()),
            started: incoming.started.saturating_add(1),
            ..incoming.clone()
        };
        let document = MessageDocument::<C>::incoming(incoming.clone(), now + self.config.claim);
        let written = self
            .container
            .replace_if_match(&document, &stored.etag)
            .await;
        match written {
            Ok(written) => Ok(document.stored(written.etag, now).map(|stored| Taken {
                stored,
                incoming,
                seen,
            })),
            Err(error)
                if error.is_precondition_failed()
                    || error.is_not_found()
                    || error.is_ambiguous() =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Has the handler make an effect and commits it.
    async fn handle(&self, taken: Taken<'_, C>) -> Result<Step<C>, Error> {
        let mut tried = 0;
        let (failure, counts) = loop {
            tried += 1;
            let batch = match self.effect_of(&taken).await {
                Ok(batch) => batch,
                Err(failed) => break (failed, true),
            };
            match self.commit_receipt(&taken, batch).await? {
                Attempted::Step(step) => return Ok(step),
                Attempted::Stale { .. } if tried < STALE => {}
                Attempted::Stale { reason, counts } => break (Failed::temporarily(reason), counts),
                Attempted::Failed(failed) => break (failed, true),
            }
        };
        let exhausted = taken.incoming.tries.counted + 1 >= self.config.retry.max_attempts;
        if failure.is_final || (counts && exhausted) {
            self.give_up(taken, &failure).await
        } else {
            self.postpone(&taken, &failure.reason, counts).await
        }
    }

    /// What the handler makes of a message.
    async fn effect_of(&self, taken: &Taken<'_, C>) -> Handled<C> {
        let Incoming {
            envelope, started, ..
        } = &taken.incoming;
        let handled = self
            .handlers
            .handle(envelope, *started, taken.batch())
            .await;
        handled.and_then(|batch| {
            if *batch.home() == envelope.to {
                Ok(batch)
            } else {
                Err(Failed::permanently(
                    "the handler returned the batch of another",
                ))
            }
        })
    }

    /// Commits the effect of a message with its removal, the record of it, and what follows from it.
    async fn commit_receipt(
        &self,
        taken: &Taken<'_, C>,
        batch: OutboxBatch<C>,
    ) -> Result<Attempted<C>, Error> {
        let unfit =
            |error: BatchError| Ok(Attempted::Failed(Failed::permanently(error.to_string())));
        let streams = Streams::read(&self.container, &batch).await?;
        let now = self.container.now();
        // Nobody asks for it: whether a receipt took place is told by the record of its stream.
        let unique = uuid::Uuid::new_v4().simple().to_string();
        let terms = Terms {
            token: &unique,
            now,
            reserved: self.config.reserved,
            lifetimes: self.lifetimes(),
        };
        let mut sealed = match streams.seal(&batch, &terms) {
            Ok(sealed) => sealed,
            Err(error) => return unfit(error),
        };
        let record = match self.remove_and_record(&mut sealed.batch, taken) {
            Ok(record) => record,
            Err(error) => return unfit(error),
        };
        let error = match self.container.execute(&sealed.batch).await {
            Ok(outcome) => {
                telemetry::received(now.since(taken.incoming.envelope.sent_at));
                let seen = record.and_then(|(index, document)| {
                    document
                        .stored(outcome.etag(index)?.clone(), now)
                        .map(Box::new)
                });
                self.hand_over(sealed.sent(&outcome, now));
                return Ok(Attempted::Step(Step::Received(seen)));
            }
            Err(error) => error,
        };
        Ok(match Refusal::of(&error, &sealed) {
            Refusal::Lost => Attempted::Step(Step::Lost),
            Refusal::Stale { counts } => Attempted::Stale {
                reason: error.to_string(),
                counts,
            },
            Refusal::Refused => Attempted::Failed(Failed::temporarily(error.to_string())),
            Refusal::Unreachable => {
                Attempted::Step(self.postpone(taken, &error.to_string(), false).await?)
            }
        })
    }

    /// Adds to a batch what makes a message received. Returns the record of its stream, if it has one.
    fn remove_and_record(
        &self,
        batch: &mut Batch<C>,
        taken: &Taken<'_, C>,
    ) -> Result<Option<(OperationIndex, MessageDocument<C>)>, BatchError> {
        batch.delete_stored(&taken.stored)?;
        let envelope = &taken.incoming.envelope;
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
        let index = match taken.seen {
            Some(known) => batch.replace_if_match(&document, &known.etag)?,
            None => batch.create(&document)?,
        };
        Ok(Some((index, document)))
    }

    /// Keeps a message for another attempt. Its stream waits for it.
    async fn postpone(
        &self,
        taken: &Taken<'_, C>,
        reason: &str,
        counts: bool,
    ) -> Result<Step<C>, Error> {
        telemetry::receipt_postponed();
        let now = self.container.now();
        let mut incoming = taken.incoming.clone();
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
            "a message was not received and will be tried again"
        );
        let later = MessageDocument::<C>::incoming(incoming, now + delay);
        match self
            .container
            .replace_if_match(&later, &taken.stored.etag)
            .await
        {
            Ok(_) => Ok(Step::Waits),
            // It is tried again when this process no longer has it to itself.
            Err(error) if error.is_precondition_failed() || error.is_not_found() => Ok(Step::Lost),
            Err(error) => Err(error),
        }
    }

    /// Makes a message a dead letter; its stream goes on.
    async fn give_up(&self, taken: Taken<'_, C>, failure: &Failed) -> Result<Step<C>, Error> {
        let now = self.container.now();
        let envelope = &taken.incoming.envelope;
        let mut tries = taken.incoming.tries.clone();
        tries.note(now, &failure.reason, true);
        tracing::error!(
            message = envelope.message_type,
            id = %envelope.id(),
            reason = failure.reason,
            "a message was given up; it is a dead letter now"
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
        let record = batch
            .create(&MessageDocument::<C>::dead(partition, dead, now))
            .and_then(|_| self.remove_and_record(&mut batch, &taken));
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                // Messages are limited so that this cannot be; if it is, the message stays.
                tracing::error!(%error, "a message cannot be made a dead letter");
                return self.postpone(&taken, &error.to_string(), true).await;
            }
        };
        match self.container.execute(&batch).await {
            Ok(outcome) => {
                telemetry::unreceivable();
                let seen = record.and_then(|(index, document)| {
                    document
                        .stored(outcome.etag(index)?.clone(), now)
                        .map(Box::new)
                });
                Ok(Step::Received(seen))
            }
            Err(error)
                if error.is_ambiguous()
                    || error.is_conflict()
                    || error.is_precondition_failed()
                    || error.is_not_found() =>
            {
                Ok(Step::Lost)
            }
            Err(error) => Err(error),
        }
    }
}
