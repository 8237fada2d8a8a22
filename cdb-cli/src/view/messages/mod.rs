//! Messages and changes that are not delivered or whose handlers fail.

pub(crate) mod change_feed;
pub(crate) mod failed;
