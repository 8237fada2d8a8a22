//! Virtual partitions: ownership, lease renewal, the search for messages, and the removal of idle
//! streams.

pub(crate) mod forget;
pub(crate) mod ownership;
pub(crate) mod renewal;
pub(crate) mod search;
