//! The commit of a turn: one atomic batch, conditional on the lock.

use std::time::Duration;

use cdb_client::{BatchOutcome, ContainerClient};
use cdb_coordination::{Fenced, FencedWrite, Found, execute_fenced};
use cdb_model::{Batch, BatchError, ItemId, OperationIndex, Stored, Timestamp};
use tokio::time::Instant;

use super::advance::advance;
use super::content::{Cargo, has_no_room, kv_changes};
use super::outgoing::{Origin, Placed};
use crate::activities;
use crate::documents::{Durable, Instance, OrchestratorItem};
use crate::error::{Error, Result};
use crate::instances::{Turn, TurnResult};
use crate::kv::KvWritten;
use crate::services::Services;
use crate::turn::lock::find_out;
use crate::turn::prelock::NextTurn;
use crate::turn::release;
use crate::turn::renew;

/// How long a commit renews its lock; it is sent while the lock lasts. duroxide fails the orchestration when it is told that the
/// store does not answer; a lost lock has the turn run again.
const MAX_TIME: Duration = Duration::from_secs(120);

/// How long to wait after the store was away for as long as a request tries.
const PAUSE: Duration = Duration::from_millis(200);

/// Sends the commit until it is known to have taken place, or until the lock is lost or does not help.
pub(crate) async fn send(
    services: &Services,
    turn: &mut Turn,
    result: &TurnResult,
    origin: &Origin<'_>,
    cargo: &mut Cargo,
) -> Result<Sent> {
    let sent = plan(services, turn, result, origin, cargo).await?;
    let mut commit = Commit {
        services,
        turn,
        result,
        origin,
        cargo,
        sent,
        begun: Instant::now(),
    };
    let mut fenced = execute_fenced(&mut commit).await?;
    while let Fenced::Refused(error) = &fenced
        && error.is_transient()
    {
        tokio::time::sleep(PAUSE).await;
        fenced = execute_fenced(&mut commit).await?;
    }
    let Commit { mut sent, .. } = commit;
    match fenced {
        Fenced::Committed(outcome) => {
            sent.outcome = outcome;
            Ok(sent)
        }
        Fenced::Earlier => {
            // What this call would have left is not what is stored.
            cargo.spilling.give_up(services);
            cargo.outgoing.intents.clear();
            Ok(sent)
        }
        Fenced::Lost => Err(lost(services, turn)),
        Fenced::Refused(error) if !error.is_not_found() && !error.is_precondition_failed() => {
            Err(error.into())
        }
        // A message is gone that another turn has consumed, the instance was deleted by hand, or the lock has ended.
        Fenced::Refused(_) | Fenced::Unknown(_) => {
            release::unlock(&services.store, turn).await;
            Err(lost(services, turn))
        }
    }
}

/// The commit as one batch. What is too large for that leaves it, and is written before.
async fn plan(
    services: &Services,
    turn: &mut Turn,
    result: &TurnResult,
    origin: &Origin<'_>,
    cargo: &mut Cargo,
) -> Result<Sent> {
    match Sent::new(services, turn, result, origin, cargo) {
        Err(error) if has_no_room(&error) => {
            cargo.spill(turn, origin, result)?;
            let writing = cargo.spilling.write(&services.store);
            renew::while_doing(services, turn, writing).await?;
            Ok(Sent::new(services, turn, result, origin, cargo)?)
        }
        planned => Ok(planned?),
    }
}

/// A commit that keeps the lock of its turn.
struct Commit<'a> {
    services: &'a Services,
    turn: &'a mut Turn,
    result: &'a TurnResult,
    origin: &'a Origin<'a>,
    cargo: &'a mut Cargo,
    sent: Sent,
    begun: Instant,
}

impl Commit<'_> {
    /// The same batch under the instance's newest version, with locks that last from now on.
    fn rebuild(&mut self) -> Result<(), BatchError> {
        let (sent, cargo) = (&mut self.sent, &mut *self.cargo);
        let now = self.services.store.now();
        let late = now.since(sent.locked_at);
        sent.locked_at = now;
        if let Some(until) = &mut sent.instance.locked_until {
            *until = *until + late;
        }
        activities::prolong(&mut cargo.outgoing.workers, late);
        let mut batch = Batch::new(self.origin.instance_id);
        batch.replace_if_match(&sent.instance, &self.turn.instance.etag)?;
        sent.kv = add_turn(&mut batch, self.turn, self.result, self.origin, cargo)?;
        sent.placed = cargo.outgoing.add_to(&mut batch)?;
        sent.batch = batch;
        Ok(())
    }
}

impl FencedWrite for Commit<'_> {
    type Container = Durable;
    type Answer = BatchOutcome<Durable>;
    type Error = Error;

    fn container(&self) -> &ContainerClient<Durable> {
        self.services.container()
    }

    /// Renews the lock between two sends. That moves the version that the batch is conditional on, so a send that is still on
    /// its way then changes nothing.
    async fn prepare(&mut self, sends: u32) -> Result<Option<Duration>> {
        let now = self.services.store.now();
        if !self.turn.holds(now) {
            return Ok(None);
        }
        let is_short = self.turn.lasts_less_than(now, self.turn.lock_time / 2);
        if sends > 0 || is_short {
            if self.begun.elapsed() < MAX_TIME {
                // Whatever comes of it: the send meets the version that is stored then.
                let _renewed = renew::extend_for_commit(self.services, self.turn).await;
            }
            self.rebuild()?;
        }
        Ok(Some(self.turn.lock_time / 3))
    }

    async fn send(&self) -> Result<BatchOutcome<Durable>, cdb_client::Error> {
        self.services.container().execute(&self.sent.batch).await
    }

    async fn find_out(&mut self, latest: &ContainerClient<Durable>) -> Result<Found> {
        match find_out(latest, self.turn).await {
            // The next send finds out.
            Err(error) if error.is_retryable() => Ok(Found::Moved),
            found => found,
        }
    }
}

fn lost(services: &Services, turn: &mut Turn) -> Error {
    let instance_id = turn.instance.document.instance_id.clone();
    services.instances().forget_messages(&instance_id);
    services.instances().finish(turn);
    services
        .instances()
        .suspect(&instance_id, None, Duration::ZERO);
    Error::LockLost("another runtime took the instance, or it was deleted")
}

/// A commit as it is sent.
pub(crate) struct Sent {
    batch: Batch<Durable>,
    /// Since when the locks of what comes next last.
    locked_at: Timestamp,
    /// The instance as the commit leaves it.
    pub(crate) instance: Instance,
    pub(crate) instance_operation: OperationIndex,
    /// Nothing when the store is one document.
    pub(crate) kv: Option<KvWritten>,
    pub(crate) placed: Placed,
    /// The lock of the next turn, which begins with the commit of this one.
    pub(crate) next: Option<NextTurn>,
    /// Nothing when the answer was lost and the instance said that the commit took place.
    pub(crate) outcome: Option<BatchOutcome<Durable>>,
}

impl Sent {
    /// The operations that make the turn: instance, history, consumed messages, key-value store, and what it sends.
    fn new(
        services: &Services,
        turn: &Turn,
        result: &TurnResult,
        origin: &Origin<'_>,
        cargo: &mut Cargo,
    ) -> Result<Self, BatchError> {
        let next = NextTurn::plan(services, turn, result, &cargo.outgoing.own);
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
            return Self::new(services, turn, result, origin, cargo);
        }
        activities::lock_ahead(services, &mut cargo.outgoing.workers, origin.now);
        if turn.long_poll {
            cargo.outgoing.reserve(origin.now);
        }
        let placed = cargo.outgoing.add_to(&mut batch)?;
        Ok(Self {
            batch,
            locked_at: origin.now,
            instance,
            instance_operation,
            kv,
            placed,
            next,
            outcome: None,
        })
    }

    /// What an operation of the batch left, if its answer arrived.
    pub(crate) fn stored<D>(
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
    if let Some(consumed_chunks) = &cargo.consumed_chunks {
        consumed_chunks.add_to(batch)?;
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
