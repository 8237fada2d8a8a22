//! What a process knows about the members, and which share of the work follows from it.

use std::sync::Arc;

use crate::rendezvous::slots_of_member;
use crate::slots::SlotSet;

/// Whether a process counts as a member.
///
/// ```
/// use cdb_coordination::Standing;
///
/// /// For a readiness probe.
/// fn is_ready(standing: Standing) -> bool {
///     // Unheard, it serves more and not less.
///     matches!(standing, Standing::Member | Standing::Unheard)
/// }
/// assert!(is_ready(Standing::Unheard) && !is_ready(Standing::Replaced));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// Not yet: it has never reached the roster.
    Joining,
    /// It is on the roster.
    Member,
    /// It has not reached the roster for so long that others have divided its share.
    Unheard,
    /// Another process has joined under its name, and counts instead of it.
    Replaced,
    /// It has left.
    Left,
}

/// The members at some moment, seen by one of them.
///
/// ```
/// use cdb_client::ContainerClient;
/// use cdb_coordination::{Membership, MembershipConfig, MembershipView, Standing, Work, WorkMember};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_container("work", async |container: ContainerClient<Work>| {
///
/// let me = Membership::start::<WorkMember, _>(container, MembershipConfig::named("worker-1"));
/// let mut views = me.watch();
/// let view: MembershipView =
///     views.wait_for(|view| view.standing() == Standing::Member).await?.clone();
/// assert_eq!(view.members(), ["worker-1"]);
/// assert_eq!(view.share(3), [0, 1, 2]); // of three shards of one's own, those for this process
/// # me.leave().await; Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MembershipView {
    standing: Standing,
    member: Arc<str>,
    members: Arc<[String]>,
    slots: SlotSet,
}

impl MembershipView {
    pub(super) fn new(standing: Standing, member: &Arc<str>, members: &[String]) -> Self {
        let slots = match standing {
            Standing::Member => SlotSet::of_member(members, member),
            Standing::Joining | Standing::Unheard => SlotSet::ALL,
            Standing::Replaced | Standing::Left => SlotSet::NONE,
        };
        Self {
            standing,
            member: member.clone(),
            members: members.into(),
            slots,
        }
    }

    /// Whether this process counts as a member.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// The members' names as last seen, in ascending order.
    pub fn members(&self) -> &[String] {
        &self.members
    }

    /// Which of the 256 dispatch slots this process serves.
    ///
    /// A process that cannot reach the roster serves all of them: it works as if it were alone, which costs races, where
    /// serving nothing could mean that nobody serves it. One that was replaced or has left serves none.
    pub fn slots(&self) -> &SlotSet {
        &self.slots
    }

    /// The same for work that is divided into `count` parts: those that this process serves, in ascending order.
    pub fn share(&self, count: u32) -> Vec<u32> {
        match self.standing {
            Standing::Member => slots_of_member(&self.members, &self.member, count).collect(),
            Standing::Joining | Standing::Unheard => (0..count).collect(),
            Standing::Replaced | Standing::Left => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_roster_everything_is_served_and_after_the_end_nothing() {
        let me: Arc<str> = "me".into();
        let members = ["me".to_owned(), "you".to_owned()];
        let served = |standing| {
            let view = MembershipView::new(standing, &me, &members);
            assert_eq!(view.share(256).len(), view.slots().len() as usize);
            view.slots().len()
        };
        assert!((1..256).contains(&served(Standing::Member)));
        assert_eq!(served(Standing::Joining), 256);
        assert_eq!(served(Standing::Unheard), 256);
        assert_eq!(served(Standing::Replaced), 0);
        assert_eq!(served(Standing::Left), 0);
    }
}
