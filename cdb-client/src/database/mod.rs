//! Databases and their containers: opening, definitions, differences from a model, and changes.

mod bootstrap;
mod change;
mod difference;
mod extend;
mod handle;
mod live;
mod metadata;
mod opening_checks;
mod search_definition;
#[cfg(test)]
mod tests;

pub use bootstrap::{Bootstrap, BootstrapConfig, OnDifference, Throughput};
pub use change::ContainerChange;
pub use difference::Difference;
pub use handle::DatabaseClient;
