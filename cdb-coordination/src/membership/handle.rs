//! The handle that a process holds while it is a member.

use std::fmt;

use async_trait::async_trait;
use cdb_client::ContainerClient;
use cdb_model::{Container, MemberOf};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::config::MembershipConfig;
use super::document::MemberDocument;
use super::heartbeat::Heartbeat;
use super::view::{MembershipView, Standing};
use crate::slots::{LeaseProvider, SlotSet};

/// Membership of one process: on the roster from [`start`](Self::start) until [`leave`](Self::leave), or until it is
/// dropped. As a [`LeaseProvider`] it gives the slots that fall to this member.
///
/// What happens when:
/// - **Join or leave**: the others know with their next heartbeat; only the slots of who came or went move.
/// - **Crash**: the others remove who has been silent over three of their own heartbeats, without comparing clocks, and
///   know its slots for theirs at once or with the next heartbeat.
/// - **Restart under the same name**: the new process takes the place of the old one, whose slots do not move. The old
///   one, if it still runs, serves no slots from its next heartbeat on, and logs an error.
/// - **No answer**: the share stays as it was for three heartbeats; then this process serves every slot, as if it were
///   alone, until it is back. Whom the others have removed meanwhile joins again by itself.
///
/// ```
/// use cdb_client::ContainerClient;
/// use cdb_coordination::{LeaseProvider, Membership, MembershipConfig, Standing, Work, WorkMember};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_container("work", async |container: ContainerClient<Work>| {
///
/// let me = Membership::start::<WorkMember, _>(container, MembershipConfig::named("worker-1"));
/// me.watch().wait_for(|view| view.standing() == Standing::Member).await?;
/// assert!(me.slots().await.is_all()); // alone so far
/// me.leave().await;
/// assert!(me.slots().await.is_empty());
/// # Ok(()) }).unwrap();
/// ```
pub struct Membership {
    views: watch::Receiver<MembershipView>,
    stop: CancellationToken,
    /// Who drops the handle leaves too.
    _leave_on_drop: DropGuard,
}

impl Membership {
    /// Joins in the background, and beats from then on. `D` is the document type that keeps members in this container.
    /// Until this process is on the roster it serves every slot.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn start<D, C>(container: ContainerClient<C>, config: MembershipConfig) -> Self
    where
        C: Container,
        D: MemberDocument + MemberOf<C>,
    {
        let alone = MembershipView::new(Standing::Joining, &config.member.as_str().into(), &[]);
        let (sender, views) = watch::channel(alone);
        let stop = CancellationToken::new();
        let heartbeat = Heartbeat::<C, D>::new(container, config, sender);
        tokio::spawn(heartbeat.run(stop.clone()));
        Self {
            views,
            _leave_on_drop: stop.clone().drop_guard(),
            stop,
        }
    }

    /// What this process knows about the members now.
    pub fn view(&self) -> MembershipView {
        self.views.borrow().clone()
    }

    /// The same, and every change of it.
    pub fn watch(&self) -> watch::Receiver<MembershipView> {
        self.views.clone()
    }

    /// Leaves, so that the others serve these slots from their next heartbeat on. Ends after 5 s at the latest; who could
    /// not leave by then is found out by silence.
    pub async fn leave(&self) {
        self.stop.cancel();
        let mut views = self.views.clone();
        // The sender goes with the task.
        while views.changed().await.is_ok() {}
    }
}

#[async_trait]
impl LeaseProvider for Membership {
    async fn slots(&self) -> SlotSet {
        self.views.borrow().slots().clone()
    }
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Membership")
            .field("view", &*self.views.borrow())
            .finish_non_exhaustive()
    }
}
