//! The virtual partitions: taken, renewed, released, searched for messages, freed of idle streams.

pub(crate) mod forget;
pub(crate) mod ownership;
pub(crate) mod renewal;
pub(crate) mod search;
