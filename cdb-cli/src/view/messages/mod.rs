//! Messages and changes that are not delivered or whose handlers fail.

pub(crate) mod change_feed;
pub(crate) mod dead_letters;
pub(crate) mod ordered_work;
pub(crate) mod outbox;
pub(crate) mod retrying;
