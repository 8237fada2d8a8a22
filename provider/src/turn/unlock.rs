//! The batch that releases the lock of a turn without a result.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_client::write::BatchOutcome;
use cdb_coordination::lease::{FencedWrite, Found};
use cdb_model::operation::BatchError;
use cdb_model::{Batch, Document as _, Patch};

use crate::error::{Error, Result};
use crate::queue::instances::lock::{self, unlock_patch};
use crate::queue::instances::{Message, Turn};
use crate::stored::documents::{Durable, Hold, Instance, InstanceKey, OrchestratorItem};
use crate::timing::RENEWAL;

/// The most sends of the batch while its outcome is unknown. Afterwards the lock expires.
const MAX_SENDS: u32 = 4;

/// The batch that releases a turn.
pub(super) struct Unlock<'a> {
    container: &'a ContainerClient<Durable>,
    turn: &'a mut Turn,
    attempts: BTreeMap<String, u32>,
    delay: Option<Duration>,
    hold: Option<Hold>,
    batch: Batch<Durable>,
}

impl<'a> Unlock<'a> {
    /// Releases a turn, and leaves these attempts.
    pub(super) fn new(
        container: &'a ContainerClient<Durable>,
        turn: &'a mut Turn,
        attempts: BTreeMap<String, u32>,
    ) -> Self {
        Self {
            container,
            turn,
            attempts,
            delay: None,
            hold: None,
            batch: Batch::new(""),
        }
    }

    /// Hides the messages of the turn for a time.
    pub(super) fn with_delay(self, delay: Option<Duration>) -> Self {
        Self { delay, ..self }
    }

    /// Stores why the instance is held.
    pub(super) fn with_hold(self, hold: Hold) -> Self {
        let hold = Some(hold);
        Self { hold, ..self }
    }

    fn batch(&self) -> Result<Batch<Durable>, BatchError> {
        let now = self.container.now();
        let instance = &self.turn.instance;
        let key = InstanceKey::new(&*instance.document.instance_id);
        let mut batch = Batch::new(&*instance.document.instance_id);
        let hold = self.hold.clone();
        if let Some(etag) = &instance.version {
            let mut patch = unlock_patch(self.attempts.clone(), now);
            if hold.is_some() {
                patch = patch.set(Instance::HELD, hold);
            }
            batch.add(patch.at(&key).if_match(etag))?;
        } else {
            batch.add(
                Instance {
                    lock_token: None,
                    locked_until: None,
                    attempts: self.attempts.clone(),
                    held: hold,
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

impl FencedWrite for Unlock<'_> {
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
