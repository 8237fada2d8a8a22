//! The handle of a member.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use cdb_client::ContainerClient;
use cdb_model::Container;
use cdb_model::container::MemberOf;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::config::MembershipConfig;
use super::document::MemberDocument;
use super::failed::FailedMember;
use super::heartbeat::{Heartbeat, Reports};
use super::slots::{LeaseProvider, SlotSet};
use super::view::{MemberState, MembershipView};

/// How many failed members a receiver may leave unread before it loses the oldest.
const MAX_UNREAD: usize = 256;

/// The membership of one process: from [`start`](Self::start) until [`leave`](Self::leave) or drop.
/// As a [`LeaseProvider`] it provides the slots of this member.
///
/// Events and their effects:
/// - **Join or leave**: the others notice with their next heartbeat. Only the slots of the joining
///   or leaving member move.
/// - **Crash**: the others remove a member that is silent for three of their heartbeats, without
///   comparing clocks. They serve its slots at once or with their next heartbeat.
/// - **Restart under the same name**: the new process replaces the old one, and no slots move. The
///   old process, if it still runs, serves no slots from its next heartbeat on and logs an error.
/// - **No answer**: the share stays unchanged for three heartbeats. Then this process serves every
///   slot, as if it were alone, until it reaches the roster again. A member that was removed
///   rejoins automatically.
///
/// ```
/// use cdb_client::ContainerClient;
/// use cdb_coordination::Membership;
/// use cdb_coordination::membership::{LeaseProvider, MembershipConfig, MemberState};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/team.rs")); }
/// # use setup::{Team, TeamMember};
/// # setup::with_container("team", async |container: ContainerClient<Team>| {
///
/// let me = Membership::start::<TeamMember, _>(container, MembershipConfig::named("worker-1"));
/// me.watch().wait_for(|view| view.state() == MemberState::Member).await?;
/// assert!(me.slots().await.is_all()); // the only member
/// me.leave().await;
/// assert!(me.slots().await.is_empty());
/// # Ok(()) }).unwrap();
/// ```
pub struct Membership {
    incarnation: Arc<str>,
    views: watch::Receiver<MembershipView>,
    failed: broadcast::Receiver<FailedMember>,
    stop: CancellationToken,
    parts: Mutex<Option<CachedShare>>,
    /// Dropping the handle leaves the group.
    _leave_on_drop: DropGuard,
}

/// The last computed parts, because they are asked for every second and change with the view only.
struct CachedShare {
    view: MembershipView,
    count: u32,
    parts: Vec<u32>,
}

impl Membership {
    /// Joins in the background and starts the heartbeats. `D` is the document type that stores
    /// members in this container. Until the process is on the roster, it serves every slot.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn start<D, C>(container: ContainerClient<C>, config: MembershipConfig) -> Self
    where
        C: Container,
        D: MemberDocument + MemberOf<C>,
    {
        let alone = MembershipView::new(MemberState::Joining, &config.member.as_str().into(), &[]);
        let (view_sender, views) = watch::channel(alone);
        let (failed_sender, failed) = broadcast::channel(MAX_UNREAD);
        let reports = Reports {
            views: view_sender,
            failed: failed_sender,
        };
        let incarnation: Arc<str> = uuid::Uuid::new_v4().to_string().into();
        let stop = CancellationToken::new();
        let heartbeat = Heartbeat::<C, D>::new(container, config, &incarnation, reports);
        tokio::spawn(heartbeat.run(stop.clone()));
        Self {
            incarnation,
            views,
            failed,
            parts: Mutex::new(None),
            _leave_on_drop: stop.clone().drop_guard(),
            stop,
        }
    }

    /// The latest view of the members.
    pub fn view(&self) -> MembershipView {
        self.views.borrow().clone()
    }

    /// A receiver of the view and all its changes.
    pub fn watch(&self) -> watch::Receiver<MembershipView> {
        self.views.clone()
    }

    /// The id of this process in the group, unique for each [`start`](Self::start).
    pub fn incarnation(&self) -> &Arc<str> {
        &self.incarnation
    }

    /// A receiver of the failed members that this process removes from now on. Of all members, the
    /// one that removes a failed member receives it; after a lost answer, two may.
    ///
    /// A member that leaves, or that restarts under its name, has not failed.
    pub fn failed(&self) -> broadcast::Receiver<FailedMember> {
        self.failed.resubscribe()
    }

    /// Leaves the group, so that the others serve these slots from their next heartbeat on. Returns
    /// after 5 s at the latest. Without an answer by then, the failure detectors of the others
    /// remove this member.
    pub async fn leave(&self) {
        self.stop.cancel();
        let mut views = self.views.clone();
        // The channel closes when the heartbeat task ends.
        while views.changed().await.is_ok() {}
    }
}

#[async_trait]
impl LeaseProvider for Membership {
    async fn slots(&self) -> SlotSet {
        self.views.borrow().slots().clone()
    }

    async fn runtimes(&self) -> Option<u32> {
        u32::try_from(self.views.borrow().members().len()).ok()
    }

    async fn parts(&self, count: u32) -> Vec<u32> {
        let view = self.view();
        let mut last = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.as_ref()
            && last.count == count
            && last.view == view
        {
            return last.parts.clone();
        }
        let parts = view.share(count);
        *last = Some(CachedShare {
            view,
            count,
            parts: parts.clone(),
        });
        parts
    }
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Membership")
            .field("view", &*self.views.borrow())
            .finish_non_exhaustive()
    }
}
