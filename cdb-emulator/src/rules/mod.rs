//! The rules of the service for documents, names, containers and indexing policies.

mod container;
mod document;
mod name;
mod policy;

pub(crate) use container::definition;
pub(crate) use document::{
    document_size, id, is_key_too_long, key_text, partition_key, partition_key_header,
    request_size, ttl,
};
pub(crate) use name::name;
