//! Operations on the account, databases, containers, offers and physical partitions.

pub(super) mod catalog;
mod listing;
pub(super) mod offers;
pub(crate) mod ranges;
