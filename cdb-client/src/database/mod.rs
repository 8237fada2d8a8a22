//! Databases and their containers: opening, definitions, differences from a model, and changes.

mod bootstrap;
mod change;
pub(crate) mod config;
mod difference;
mod extend;
pub(crate) mod handle;
mod live;
mod metadata;
mod opening_checks;
mod remedy;
mod search_definition;
#[cfg(test)]
mod tests;

pub use change::ContainerChange;
pub use config::{BootstrapConfig, OnDifference, Throughput};
pub use difference::Difference;
pub(crate) use handle::DatabaseClient;
