//! Membership: a roster in the container, with one request per heartbeat and member.
//!
//! Membership only spreads load. A process with a wrong view of the members races with others for
//! locks, and the store decides.

mod config;
mod document;
mod failed;
mod failure_detector;
pub(crate) mod handle;
mod heartbeat;
mod rendezvous;
mod roster;
mod slots;
mod view;

#[cfg(test)]
mod tests;

pub use config::MembershipConfig;
pub use document::{MemberDocument, MemberRecord};
pub use failed::FailedMember;
pub(crate) use handle::Membership;
pub use rendezvous::{name_hash, owner_of_slot};
pub use slots::{InMemoryLeaseProvider, LeaseProvider, SlotSet};
pub use view::{MemberState, MembershipView};
