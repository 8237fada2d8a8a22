//! Assigns the parts of a feed to the processes, and runs the readers of this process.

use std::collections::HashMap;
use std::sync::Arc;

use cdb_client::ContainerClient;
use cdb_client::feed::ChangeRow;
use cdb_model::value::ItemId;
use cdb_model::{Container, Document as _, Stored};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::documents::{ChangeFeedState, FeedMember, PartDocument};
use super::progress::{active_parts, create};
use super::reader::Reader;
use super::settings::Settings;
use crate::lease::{LeaseError, Leases};
use crate::membership::{FailedMember, MemberState, Membership, MembershipConfig};
use crate::timing::{ASSIGNMENT_INTERVAL, ASSIGNMENT_RETRY};

/// The parts that this process reads.
pub(super) struct Assignment<C, R> {
    settings: Arc<Settings<C, R>>,
    state: ContainerClient<ChangeFeedState>,
    readers: HashMap<ItemId, Running>,
    tasks: JoinSet<Result<(), LeaseError>>,
}

/// A running reader.
struct Running {
    stop: CancellationToken,
    task: Id,
}

/// The membership of this process and the leases in its name.
struct Member {
    membership: Membership,
    leases: Leases<ChangeFeedState, PartDocument>,
}

impl Member {
    fn join<C, R>(settings: &Settings<C, R>, state: &ContainerClient<ChangeFeedState>) -> Self {
        let config = MembershipConfig {
            group: settings.name.clone(),
            member: settings.config.member.clone(),
            heartbeat: settings.config.heartbeat,
        };
        let holder = &settings.config.member;
        let membership = Membership::start::<FeedMember, _>(state.clone(), config);
        let holder = holder_of(holder, membership.incarnation());
        let leases = Leases::new(state, holder).with_duration(settings.config.lease);
        Self { membership, leases }
    }
}

/// Returns the holder of a process's leases. A process that restarts under its name is another one.
fn holder_of(member: &str, incarnation: &str) -> String {
    format!("{member} ({incarnation})")
}

impl<C: Container, R: ChangeRow<C>> Assignment<C, R> {
    pub(super) fn new(
        settings: Arc<Settings<C, R>>,
        state: ContainerClient<ChangeFeedState>,
    ) -> Self {
        Self {
            settings,
            state,
            readers: HashMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Reads the share of this process until `stop` is cancelled.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let member = Member::join(&self.settings, &self.state);
        let (mut views, mut failed) = (member.membership.watch(), member.membership.failed());
        while !stop.is_cancelled() {
            views.mark_unchanged();
            let pause = match self.assign(&member).await {
                Ok(true) => ASSIGNMENT_INTERVAL,
                Ok(false) => ASSIGNMENT_RETRY,
                Err(error) => {
                    let processor = self.settings.name.as_str();
                    tracing::warn!(processor, %error, "cannot assign the parts of the feed; it is retried");
                    ASSIGNMENT_RETRY
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = sleep(pause) => {}
                Some(ended) = self.tasks.join_next_with_id() => self.remove(ended),
                // The channel closes when this process is no longer a member.
                Ok(()) = views.changed() => {}
                Ok(failed) = failed.recv() => self.free(&member, &failed).await,
            }
        }
        self.stop_readers();
        while let Some(ended) = self.tasks.join_next_with_id().await {
            self.remove(ended);
        }
        member.membership.leave().await;
    }

    /// Starts and stops readers. Returns whether this process reads its whole share.
    async fn assign(&mut self, member: &Member) -> Result<bool, LeaseError> {
        let view = member.membership.view();
        match view.state() {
            MemberState::Joining => return Ok(false),
            MemberState::Replaced | MemberState::Left => {
                self.stop_readers();
                return Ok(true);
            }
            MemberState::Member | MemberState::Unheard => {}
        }
        let (name, start) = (&self.settings.name, self.settings.config.start);
        let Some(parts) = active_parts(&self.state, name).await? else {
            create(&self.state, name, start).await?;
            return Ok(false);
        };
        let share = view.share(u32::try_from(parts.len()).unwrap_or(u32::MAX));
        let mut is_own = vec![false; parts.len()];
        for number in share {
            is_own[number as usize] = true;
        }
        for (id, running) in &self.readers {
            let is_kept = parts
                .iter()
                .zip(&is_own)
                .any(|(part, own)| *own && part.id == *id);
            if !is_kept {
                running.stop.cancel();
            }
        }
        let mut has_all = true;
        for (part, _) in parts.into_iter().zip(is_own).filter(|(_, own)| *own) {
            has_all &=
                self.readers.contains_key(&part.id) || self.start_reader(member, part).await?;
        }
        Ok(has_all)
    }

    /// Leases a part and starts its reader. Returns `false` if another process holds it.
    async fn start_reader(
        &mut self,
        member: &Member,
        part: Stored<PartDocument>,
    ) -> Result<bool, LeaseError> {
        let id = part.id.clone();
        let guard = match member.leases.acquire_seen(part).await {
            Ok(Some(guard)) => guard,
            Ok(None) | Err(LeaseError::Held { .. } | LeaseError::Gone { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let stop = CancellationToken::new();
        let reader = Reader::new(self.settings.clone(), guard);
        let task = self.tasks.spawn(reader.run(stop.clone())).id();
        self.readers.insert(id, Running { stop, task });
        Ok(true)
    }

    /// Stops all readers, each after the changes that it handles.
    fn stop_readers(&self) {
        for running in self.readers.values() {
            running.stop.cancel();
        }
    }

    fn remove(&mut self, ended: Result<(Id, Result<(), LeaseError>), JoinError>) {
        let task = match &ended {
            Ok((task, _)) => *task,
            Err(panic) => panic.id(),
        };
        let running = self.readers.extract_if(|_, running| running.task == task);
        let part = running.map(|(id, _)| id.to_string()).next();
        let (part, processor) = (part.unwrap_or_default(), self.settings.name.as_str());
        match ended {
            Ok((_, Ok(()))) => {}
            Ok((_, Err(error))) => {
                tracing::warn!(processor, part, %error, "a part is no longer read here");
            }
            Err(panic) => {
                tracing::error!(processor, part, %panic, "the reader of a part panicked; another one starts");
            }
        }
    }

    /// Frees the parts of a member that has failed, before their leases expire.
    async fn free(&self, member: &Member, failed: &FailedMember) {
        let holder = holder_of(&failed.name, &failed.incarnation);
        if let Err(error) = self.break_leases_of(member, &holder).await {
            let processor = self.settings.name.as_str();
            tracing::warn!(processor, %error, "cannot free the parts of a failed process; their leases expire");
        }
    }

    async fn break_leases_of(&self, member: &Member, holder: &str) -> Result<(), LeaseError> {
        let parts = active_parts(&self.state, &self.settings.name).await?;
        for part in parts.into_iter().flatten() {
            if part.document.lease.holder() == Some(holder) {
                member.leases.break_lease(&part.document.key()).await?;
            }
        }
        Ok(())
    }
}
