//! The event store, in the same container.

pub(crate) mod archive;
pub(crate) mod feed;
pub(crate) mod read;
pub(crate) mod store;
