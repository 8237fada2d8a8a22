//! Typed containers: what this process knows of one, and a folder or file per group of operations.

mod answering;
mod consistency;
mod context;
pub mod feed;
mod handle;
mod migrate;
mod point;
pub mod query;
mod raw;
#[cfg(test)]
pub(crate) mod tests;
mod unique_keys;
pub mod write;

pub(crate) use consistency::if_permitted;
pub(crate) use context::ContainerContext;
pub use handle::ContainerClient;
