//! The rules of the service for documents, names, containers and indexing policies.

mod container;
mod document;
mod name;
mod policy;
mod secondary_index;

pub(crate) use container::definition;
pub(crate) use document::{
    component, id, key_text, partition_key, partition_key_header, size, ttl,
};
pub(crate) use name::name;
pub(crate) use secondary_index::{IndexDefinition, index_definition, set_source};
