//! The commit of a turn: one atomic batch, conditional on the lock.

use std::time::Duration;

use cdb_client::BatchOutcome;
use cdb_model::{Batch, BatchError, ItemId, OperationIndex, Stored};
use tokio::time::{Instant, timeout};

use super::advance::advance;
use super::cargo::{Cargo, has_no_room, kv_changes};
use super::outgoing::{Origin, Placed};
use super::prelock::NextTurn;
use super::release;
use super::renew;
use super::resolve::{Fate, fate};
use super::result::TurnResult;
use super::table::Turn;
use crate::documents::{Durable, Instance, OrchestratorItem};
use crate::error::{Error, Result};
use crate::kv::KvWritten;
use crate::services::Services;
use crate::work;

/// How long a commit is sent again while its lock can be renewed. duroxide fails the orchestration when it is told that the
/// store does not answer; a lost lock has the turn run again.
const MAX_TIME: Duration = Duration::from_secs(120);

/// How long to wait between two sends.
const PAUSE: Duration = Duration::from_millis(50);

/// Sends the batch until it is known to be committed, or until the lock is lost or does not help.
///
/// The lock is renewed between two sends. A renewal moves the version that the batch is conditional on, so a send that is
/// still on its way then changes nothing.
pub(super) async fn send(
    inner: &Services,
    turn: &mut Turn,
    result: &TurnResult,
    origin: &Origin<'_>,
    cargo: &mut Cargo,
) -> Result<Sent> {
    let begun = Instant::now();
    let mut is_open = false;
    let mut renews = turn.lasts_less_than(inner.container.now(), turn.lock_time / 2);
    while turn.holds(inner.container.now()) && begun.elapsed() < MAX_TIME {
        if renews {
            // Whatever comes of it: the send meets the version that is stored then.
            let _renewed = renew::extend_for_commit(inner, turn).await;
        }
        let mut sent = prepare(inner, turn, result, origin, cargo).await?;
        let sending = inner.container.execute(&sent.batch);
        let error = match timeout(turn.lock_time / 3, sending).await {
            Ok(Ok(outcome)) => {
                sent.outcome = Some(outcome);
                return Ok(sent);
            }
            Ok(Err(error)) => Some(error),
            Err(_elapsed) => None,
        };
        renews = true;
        let unanswered = error.as_ref().is_none_or(cdb_client::Error::is_ambiguous);
        is_open |= unanswered;
        match error {
            Some(error) if error.is_transient() && !unanswered => {}
            // A message is gone that another turn has consumed, or the instance was deleted by hand.
            Some(error) if error.is_not_found() => break,
            Some(error) if !unanswered && !error.is_precondition_failed() => {
                return Err(error.into());
            }
            _ => match fate(inner, turn).await {
                Ok(Fate::Committed) => {
                    if !is_open {
                        // By an earlier call. What this one would have left is not what is stored.
                        cargo.spilling.give_up(inner);
                        cargo.outgoing.intents.clear();
                    }
                    return Ok(sent);
                }
                // The version is the one that was asked for: it was a message that was not.
                Ok(Fate::Held(stored)) if !unanswered && stored.etag == turn.instance.etag => break,
                Ok(Fate::Held(stored)) => turn.instance.etag = stored.etag,
                Ok(Fate::Lost) => return Err(lost(inner, turn)),
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(error),
            },
        }
        tokio::time::sleep(PAUSE).await;
    }
    release::unlock(inner, turn).await;
    Err(lost(inner, turn))
}

/// The commit as one batch. What is too large for that leaves it, and is written before.
async fn prepare(
    inner: &Services,
    turn: &mut Turn,
    result: &TurnResult,
    origin: &Origin<'_>,
    cargo: &mut Cargo,
) -> Result<Sent> {
    match Sent::new(inner, turn, result, origin, cargo) {
        Err(error) if has_no_room(&error) => {
            cargo.spill(turn, origin, result)?;
            let writing = cargo.spilling.write(inner);
            renew::while_doing(inner, turn, writing).await?;
            Ok(Sent::new(inner, turn, result, origin, cargo)?)
        }
        prepared => Ok(prepared?),
    }
}

fn lost(inner: &Services, turn: &mut Turn) -> Error {
    let instance_id = turn.instance.document.instance_id.clone();
    inner.instances.forget_messages(&instance_id);
    inner.instances.finish(turn);
    inner.instances.suspect(&instance_id, None, Duration::ZERO);
    Error::LockLost("another runtime took the instance, or it was deleted")
}

/// A commit as it is sent.
pub(super) struct Sent {
    batch: Batch<Durable>,
    /// The instance as the commit leaves it.
    pub(super) instance: Instance,
    pub(super) instance_operation: OperationIndex,
    /// Nothing when the store is one document.
    pub(super) kv: Option<KvWritten>,
    pub(super) placed: Placed,
    /// The lock of the next turn, which begins with the commit of this one.
    pub(super) next: Option<NextTurn>,
    /// Nothing when the answer was lost and the instance said that the commit took place.
    pub(super) outcome: Option<BatchOutcome<Durable>>,
}

impl Sent {
    /// The operations that make the turn: instance, history, consumed messages, key-value store, and what it sends.
    fn new(
        inner: &Services,
        turn: &Turn,
        result: &TurnResult,
        origin: &Origin<'_>,
        cargo: &mut Cargo,
    ) -> Result<Self, BatchError> {
        let next = NextTurn::plan(inner, turn, result, &cargo.outgoing.own);
        let messages = cargo.outgoing.own.len();
        let documents = cargo.segments.len() as u64;
        let mut instance = advance(turn, result, cargo.output.as_ref(), documents, origin.now);
        if let Some(next) = &next {
            instance = next.lock(instance, &cargo.outgoing.own, origin.now)?;
        }
        let mut batch = Batch::new(origin.instance_id);
        // First, so that a lost lock shows up as this operation's 412.
        let instance_operation = batch.replace_if_match(&instance, &turn.instance.etag)?;
        let kv = add_turn(&mut batch, turn, result, origin, cargo)?;
        cargo.outgoing = std::mem::take(&mut cargo.outgoing).fit(origin, &batch);
        if next.is_some() && cargo.outgoing.own.len() < messages {
            // They travel by intents now, so they are no part of the next turn.
            return Self::new(inner, turn, result, origin, cargo);
        }
        work::lock_ahead(inner, &mut cargo.outgoing.workers, origin.now);
        if turn.patient {
            cargo.outgoing.reserve(origin.now);
        }
        let placed = cargo.outgoing.add_to(&mut batch)?;
        Ok(Self {
            batch,
            instance,
            instance_operation,
            kv,
            placed,
            next,
            outcome: None,
        })
    }

    /// What an operation of the batch left, if its answer arrived.
    pub(super) fn stored<D>(
        &self,
        id: ItemId,
        document: D,
        operation: OperationIndex,
    ) -> Option<Stored<D>> {
        Some(Stored {
            id,
            etag: self.outcome.as_ref()?.etag(operation)?.clone(),
            document,
            timestamp: self.instance.updated_at,
        })
    }
}

fn add_turn(
    batch: &mut Batch<Durable>,
    turn: &Turn,
    result: &TurnResult,
    origin: &Origin<'_>,
    cargo: &Cargo,
) -> Result<Option<KvWritten>, BatchError> {
    cargo.spilling.settle(batch)?;
    if let Some(leftover) = &cargo.leftover {
        leftover.add_to(batch)?;
    }
    if let Some(ended) = &cargo.ended {
        batch.upsert(ended)?;
    }
    for segment in &cargo.segments {
        batch.create(segment)?;
    }
    for message in &turn.messages {
        consume(batch, &message.stored)?;
    }
    if let Some((pack, _)) = &cargo.kv {
        batch.upsert(pack)?;
        return Ok(None);
    }
    kv_changes(turn, origin, result).add_to(batch).map(Some)
}

/// Takes a message out of the queue. One that may be delivered again leaves a trace.
fn consume(
    batch: &mut Batch<Durable>,
    message: &Stored<OrchestratorItem>,
) -> Result<(), BatchError> {
    if message.document.delivered {
        let trace = message.clone().map(OrchestratorItem::into_trace);
        batch.replace_stored(&trace)?;
    } else {
        batch.delete_stored(message)?;
    }
    Ok(())
}
