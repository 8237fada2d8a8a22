//! `#[derive(Document)]`.

mod attr;
mod check;
mod computed;
mod derive;
mod expand;
mod fallback;
mod id_pattern;
mod model;
mod partition_key;
mod path;
mod role;
mod search;
mod value;

pub(crate) use model::DocumentModel;
pub(crate) use partition_key::PartitionKeyModel;

#[cfg(test)]
mod tests;
