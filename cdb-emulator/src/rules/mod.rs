//! What the service demands before it stores something: of documents, of names, of containers and of their policies.

mod container;
mod document;
mod name;
mod policy;

pub(crate) use container::definition;
pub(crate) use document::{component, id, partition_key, partition_key_header, size, ttl};
pub(crate) use name::name;
