//! Streams: their stored form, and the order of their messages in memory. Pure: no clock, no store.

pub(crate) mod claim;
pub(crate) mod delivery;
pub(crate) mod documents;
pub(crate) mod new_work;
pub(crate) mod order;
pub(crate) mod partitions;
pub(crate) mod status;
pub(crate) mod stream;
