//! Ends a turn without a result.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_client::{BatchOutcome, ContainerClient};
use cdb_coordination::{Fenced, FencedWrite, Found, execute_fenced};
use cdb_model::{Batch, BatchError, Document as _, Patch};

use crate::error::{Error, Result, committed};
use crate::queue::Services;
use crate::queue::instances::lock::{self, attempts_before, unlock_patch};
use crate::queue::instances::{Message, Turn, release};
use crate::stored::documents::{Durable, Instance, InstanceKey, OrchestratorItem};
use crate::timing::RENEWAL;

/// The most sends of the batch while its outcome is unknown. Afterwards the lock expires.
const MAX_SENDS: u32 = 4;

/// Implements `Provider::abandon_orchestration_item`.
///
/// Delay and attempt count change only for the messages of this turn. Later messages keep theirs
/// (provider guide, "Releasing Without Commit").
pub(crate) async fn abandon(
    services: &Services,
    token: &str,
    delay: Option<Duration>,
    ignore_attempt: bool,
) -> Result<()> {
    let shared = services.instances().local().running(token)?;
    let mut turn = shared.lock().await;
    if turn.ended {
        return Err(Error::LockLost("the turn has ended"));
    }
    let attempts = if ignore_attempt || turn.uncounted.is_some() {
        attempts_before(&turn)
    } else {
        turn.instance.document.attempts.clone()
    };
    let mut release = Release {
        container: services.container(),
        turn: &mut turn,
        attempts,
        delay,
        batch: Batch::new(""),
    };
    let fenced = execute_fenced(&mut release).await;
    forget(services, &mut turn, delay.unwrap_or_default());
    match fenced? {
        Fenced::CommittedBefore | Fenced::Lost => Err(Error::LockLost("another runtime took it")),
        Fenced::Refused(error) if error.is_precondition_failed() || error.is_not_found() => {
            release::unlock_outdated(&services.store, &turn).await;
            Err(Error::LockLost("another runtime took its messages"))
        }
        fenced => committed(fenced).map(drop),
    }
}

/// Ends a released turn in this process. The versions of its messages have changed, and perhaps
/// their due times.
fn forget(services: &Services, turn: &mut Turn, delay: Duration) {
    let instances = services.instances();
    instances.forget_messages(&turn.instance.document.instance_id);
    instances.finish(turn);
    let instance = &turn.instance.document;
    let execution = Some(instance.current_execution_id);
    instances.recheck(&instance.instance_id, execution, delay);
}

/// The batch that releases a turn.
struct Release<'a> {
    container: &'a ContainerClient<Durable>,
    turn: &'a mut Turn,
    attempts: BTreeMap<String, u32>,
    delay: Option<Duration>,
    batch: Batch<Durable>,
}

impl Release<'_> {
    fn batch(&self) -> Result<Batch<Durable>, BatchError> {
        let now = self.container.now();
        let instance = &self.turn.instance;
        let key = InstanceKey::new(&*instance.document.instance_id);
        let mut batch = Batch::new(&*instance.document.instance_id);
        if let Some(etag) = &instance.version {
            let patch = unlock_patch(self.attempts.clone(), now);
            batch.add(patch.at(&key).if_match(etag))?;
        } else {
            batch.add(
                Instance {
                    lock_token: None,
                    locked_until: None,
                    attempts: self.attempts.clone(),
                    ..instance.document.clone()
                }
                .create(),
            )?;
        }
        if let Some(delay) = self.delay {
            let later = Patch::<OrchestratorItem>::new()
                .set(OrchestratorItem::VISIBLE_AT, now + delay)
                .set(OrchestratorItem::RESERVED, false);
            for message in self.delayed() {
                batch.add(later.at(&message.stored))?;
            }
        }
        Ok(batch)
    }

    /// Returns the messages that a delay applies to. Without the start of its execution, no other
    /// message is handed out. So a delay of the start alone delays all, and keeps their order: a turn
    /// takes only some of the messages that wait for a start.
    fn delayed(&self) -> impl Iterator<Item = &Message> {
        let is_begun = !self.turn.instance.document.awaits_start() || self.turn.history.is_err();
        let all = is_begun || !self.turn.messages.iter().any(Message::is_start);
        let messages = self.turn.messages.iter();
        messages.filter(move |message| all || message.is_start())
    }
}

impl FencedWrite for Release<'_> {
    type Container = Durable;
    type Answer = BatchOutcome<Durable>;
    type Error = Error;

    fn container(&self) -> &ContainerClient<Durable> {
        self.container
    }

    async fn prepare(&mut self, sends: u32) -> Result<Option<Duration>> {
        self.batch = self.batch()?;
        Ok((sends < MAX_SENDS).then_some(self.turn.lock_time / RENEWAL))
    }

    async fn send(&self) -> Result<BatchOutcome<Durable>, cdb_client::Error> {
        self.container.execute(&self.batch).await
    }

    async fn find_out(&mut self, latest: &ContainerClient<Durable>) -> Result<Found> {
        match lock::find_out(latest, self.turn).await? {
            // The instance is free, or another runtime holds it.
            Found::Lost => Ok(Found::Done),
            found => Ok(found),
        }
    }
}
