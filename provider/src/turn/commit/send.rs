//! Sends a commit until its outcome is known.

use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_client::write::BatchOutcome;
use cdb_coordination::lease::{Fenced, FencedWrite, Found, execute_fenced};
use tokio::time::Instant;

use super::handed_over::HandedOver;
use super::plan::CommitPlan;
use crate::error::{Error, Result};
use crate::queue::Services;
use crate::queue::instances::lock::find_out;
use crate::queue::instances::{Message, Turn, release};
use crate::stored::documents::Durable;
use crate::stored::spill::Spilling;
use crate::timing::{COMMIT_TIME, RENEWAL, RETRY_PAUSE};
use crate::turn::renew;

/// Sends the commit until it is known to be committed, or until the lock is lost. Returns its
/// answer; `None` when the answer was lost.
///
/// # Errors
/// Fails when the commit is not applied.
pub(super) async fn send<'s>(
    services: &'s Services,
    turn: &mut Turn,
    plan: &mut CommitPlan,
    handed_over: &mut HandedOver<'s>,
) -> Result<Option<BatchOutcome<Durable>>> {
    write_chunks(services, turn, &mut plan.spilling).await?;
    let mut commit = Commit {
        services,
        turn,
        plan,
        handed_over,
        begun: Instant::now(),
    };
    commit.take_messages().await?;
    let mut fenced = execute_fenced(&mut commit).await?;
    while let Fenced::Refused(error) = &fenced {
        if let Some(next) = commit.handed_over.take_failed(error) {
            // Another worker was faster.
            next.release();
            commit.rebuild()?;
        } else if commit.plan.leave_cancelled(error) {
            commit.rebuild()?;
        } else if error.is_transient() || error.is_denied() {
            // The callers may renew their activities, and store the messages.
            std::mem::take(commit.handed_over).release();
            tokio::time::sleep(RETRY_PAUSE).await;
            commit.take_messages().await?;
        } else {
            break;
        }
        fenced = execute_fenced(&mut commit).await?;
    }
    match fenced {
        Fenced::Committed(outcome) => Ok(outcome),
        Fenced::CommittedBefore => {
            // Another call with this token has committed the turn, so the stored documents are not
            // those of this plan.
            plan.spilling.release(&services.store);
            plan.outgoing.intents.clear();
            Ok(None)
        }
        Fenced::Lost => Err(lost(services, turn)),
        Fenced::Refused(error) if !error.is_not_found() && !error.is_precondition_failed() => {
            Err(error.into())
        }
        // Another turn has consumed a message, the instance was deleted, or the lock has expired.
        Fenced::Refused(_) => {
            release::unlock_outdated(&services.store, turn).await;
            Err(lost(services, turn))
        }
        Fenced::Unknown(_) => {
            release::unlock(&services.store, turn).await;
            Err(lost(services, turn))
        }
    }
}

/// Writes the chunks of the commit. Like the batch, they are sent again until the time of a commit
/// has passed, here since the last chunk that was written.
async fn write_chunks(services: &Services, turn: &mut Turn, spilling: &mut Spilling) -> Result<()> {
    let mut progress = (spilling.chunks_left(), Instant::now());
    loop {
        let writing = spilling.write(&services.store);
        let written = renew::while_doing(services, turn, writing).await;
        if spilling.chunks_left() < progress.0 {
            progress = (spilling.chunks_left(), Instant::now());
        }
        let may_retry = progress.1.elapsed() < COMMIT_TIME;
        match written {
            Err(Error::Request(error))
                if may_retry && (error.is_transient() || error.is_denied()) =>
            {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            written => return written,
        }
    }
}

/// Ends a turn that cannot be committed. Its messages are read again.
pub(super) fn lost(services: &Services, turn: &mut Turn) -> Error {
    let instance_id = turn.instance.document.instance_id.clone();
    services.instances().forget_messages(&instance_id);
    services.instances().finish(turn);
    let now = services.store.now();
    services.instances().recheck(&instance_id, None, now);
    Error::LockLost("another runtime took the instance, or it was deleted")
}

impl Commit<'_, '_> {
    /// Takes the messages that are not stored, and adds them to the batch.
    async fn take_messages(&mut self) -> Result<()> {
        if self.turn.messages.iter().all(Message::is_stored) {
            return Ok(());
        }
        *self.handed_over = HandedOver::take(self.services, self.turn).await?;
        self.plan.unstored = self.handed_over.messages();
        self.rebuild()
    }

    /// Builds the batch again, for the newest version of the instance.
    fn rebuild(&mut self) -> Result<()> {
        let now = self.services.store.now();
        self.plan.rebuild(self.turn, now)?;
        self.handed_over.add_to(&mut self.plan.batch);
        Ok(())
    }

    /// Renews a lock that has expired, if no runtime has taken it. A slow renewal must not fail the
    /// turn.
    async fn regain(&mut self) -> bool {
        let renewed = renew::extend_for_commit(self.services, self.turn).await;
        renewed.is_ok_and(|held| held)
    }
}

/// The fenced write of a commit, which renews the lock of its turn.
struct Commit<'a, 's> {
    services: &'s Services,
    turn: &'a mut Turn,
    plan: &'a mut CommitPlan,
    handed_over: &'a mut HandedOver<'s>,
    begun: Instant,
}

impl FencedWrite for Commit<'_, '_> {
    type Container = Durable;
    type Answer = BatchOutcome<Durable>;
    type Error = Error;

    fn container(&self) -> &ContainerClient<Durable> {
        self.services.container()
    }

    /// Renews the lock between two sends. The renewal changes the ETag that the batch is
    /// conditional on, so an earlier send that arrives late is refused.
    async fn prepare(&mut self, sends: u32) -> Result<Option<Duration>> {
        let now = self.services.store.now();
        if self.turn.ended || !self.turn.holds(now) && !self.regain().await {
            return Ok(None);
        }
        let is_short = self.turn.lasts_less_than(now, self.turn.lock_time / 2);
        if (sends > 0 || is_short) && self.begun.elapsed() < COMMIT_TIME {
            // An error changes nothing here: the send fails if the lock is lost.
            let _renewed = renew::extend_for_commit(self.services, self.turn).await;
        }
        if sends == 0 && self.plan.version == self.turn.instance.version {
            return Ok(Some(self.turn.lock_time / RENEWAL));
        }
        self.rebuild()?;
        // The lock was just renewed, so a slow commit gets most of the lock time.
        Ok(Some(self.turn.lock_time / RENEWAL * 2))
    }

    async fn send(&self) -> Result<BatchOutcome<Durable>, cdb_client::Error> {
        self.services.container().execute(&self.plan.batch).await
    }

    async fn find_out(&mut self, latest: &ContainerClient<Durable>) -> Result<Found> {
        match find_out(latest, self.turn).await {
            // The next send detects the outcome.
            Err(error) if error.is_retryable() => Ok(Found::NewVersion),
            found => found,
        }
    }
}
