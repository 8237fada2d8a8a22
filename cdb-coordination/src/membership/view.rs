//! What a process knows about the members, and the share of the work that follows.

use std::sync::Arc;

use super::rendezvous::balanced_parts;
use super::slots::SlotSet;

/// The status of a process in its group.
///
/// ```
/// use cdb_coordination::membership::MemberState;
///
/// /// For a readiness probe.
/// fn is_ready(state: MemberState) -> bool {
///     // An unheard process serves all slots.
///     matches!(state, MemberState::Member | MemberState::Unheard)
/// }
/// assert!(is_ready(MemberState::Unheard) && !is_ready(MemberState::Replaced));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberState {
    /// The process has not reached the roster yet.
    Joining,
    /// The process is on the roster.
    Member,
    /// The process has not reached the roster for so long that the others have divided its share.
    Unheard,
    /// Another process has joined under its name and replaced it.
    Replaced,
    /// The process has left.
    Left,
}

/// The members as one of them has last seen them.
///
/// ```
/// use cdb_client::ContainerClient;
/// use cdb_coordination::Membership;
/// use cdb_coordination::membership::{MembershipConfig, MembershipView, MemberState};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/team.rs")); }
/// # use setup::{Team, TeamMember};
/// # setup::with_container("team", async |container: ContainerClient<Team>| {
///
/// let me = Membership::start::<TeamMember, _>(container, MembershipConfig::named("worker-1"));
/// let mut views = me.watch();
/// let view: MembershipView =
///     views.wait_for(|view| view.state() == MemberState::Member).await?.clone();
/// assert_eq!(view.members(), ["worker-1"]);
/// assert_eq!(view.share(3), [0, 1, 2]); // of three shards, those of this process
/// # me.leave().await; Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MembershipView {
    state: MemberState,
    member: Arc<str>,
    members: Arc<[String]>,
    slots: SlotSet,
}

impl MembershipView {
    pub(super) fn new(state: MemberState, member: &Arc<str>, members: &[String]) -> Self {
        let slots = match state {
            MemberState::Member => SlotSet::of_member(members, member),
            MemberState::Joining | MemberState::Unheard => SlotSet::ALL,
            MemberState::Replaced | MemberState::Left => SlotSet::NONE,
        };
        Self {
            state,
            member: member.clone(),
            members: members.into(),
            slots,
        }
    }

    /// The status of this process.
    pub fn state(&self) -> MemberState {
        self.state
    }

    /// The members' names, in ascending order.
    pub fn members(&self) -> &[String] {
        &self.members
    }

    /// The dispatch slots, out of 256, that this process serves.
    ///
    /// A process that cannot reach the roster serves all slots, as if it were alone. That costs
    /// races; serving none could leave slots unserved. A replaced process, or one that has left,
    /// serves none.
    pub fn slots(&self) -> &SlotSet {
        &self.slots
    }

    /// The share of this process in work with `count` parts: the numbers of its parts, in ascending
    /// order. The shares of the members differ by at most one part. Computed at each call.
    pub fn share(&self, count: u32) -> Vec<u32> {
        match self.state {
            MemberState::Member => balanced_parts(&self.members, &self.member, count),
            MemberState::Joining | MemberState::Unheard => (0..count).collect(),
            MemberState::Replaced | MemberState::Left => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_serves_all_slots_without_a_roster_and_none_after_it_left() {
        let me: Arc<str> = "me".into();
        let members = ["me".to_owned(), "you".to_owned()];
        let served = |state| {
            let view = MembershipView::new(state, &me, &members);
            (view.slots().len(), view.share(1000).len())
        };
        let (slots, parts) = served(MemberState::Member);
        assert!((1..256).contains(&slots) && parts == 500);
        assert_eq!(served(MemberState::Joining), (256, 1000));
        assert_eq!(served(MemberState::Unheard), (256, 1000));
        assert_eq!(served(MemberState::Replaced), (0, 0));
        assert_eq!(served(MemberState::Left), (0, 0));
    }
}
