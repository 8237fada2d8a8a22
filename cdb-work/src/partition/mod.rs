//! Virtual partitions: their number, ownership, lease renewal, the search for messages, and the removal of
//! idle streams.

pub(crate) mod forget;
pub(crate) mod ownership;
pub(crate) mod renewal;
mod round;
pub(crate) mod search;
mod settings;
