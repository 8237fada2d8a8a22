//! Who is alive and shares the work: a roster in the container, one request per heartbeat and member.
//!
//! Membership spreads load and decides nothing. A process that believes wrongly to be a member, or not to be one, races
//! with others for locks and loses or wins them in the store.

mod config;
mod document;
mod failure_detector;
mod handle;
mod heartbeat;
mod roster;
mod view;

#[cfg(test)]
mod tests;

pub use config::MembershipConfig;
pub use document::{MemberDocument, MemberRecord};
pub use handle::Membership;
pub use view::{MembershipView, Standing};
