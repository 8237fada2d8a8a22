//! The operations, one per file, and their dispatch.

mod access;
mod charge;
mod dispatch;
mod feed;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod items;
mod metadata;
mod query;
mod target;

pub(crate) use dispatch::dispatch;
pub(crate) use metadata::catalog::set_index_progress;
pub(crate) use metadata::ranges;
#[cfg(test)]
pub(crate) use query::run::rows_of;
pub(crate) use query::scope::reached_partitions;
