//! Databases and their containers: opening, definitions, differences from a model, and changes.

mod bootstrap;
mod change;
mod config;
mod difference;
mod extend;
mod handle;
mod live;
mod metadata;
mod opening_checks;
mod remedy;
mod search_definition;
#[cfg(test)]
mod tests;

pub use change::ContainerChange;
pub use config::{Bootstrap, BootstrapConfig, OnDifference, Throughput};
pub use difference::Difference;
pub use handle::DatabaseClient;
