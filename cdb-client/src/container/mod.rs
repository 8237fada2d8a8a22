//! Typed containers: what this process knows of one, and a folder or file per group of operations.

mod answering;
mod consistency;
mod context;
mod feed;
mod handle;
mod migrate;
mod point;
mod query;
#[cfg(any(test, feature = "test-support"))]
mod raw;
#[cfg(test)]
pub(crate) mod tests;
mod unique_keys;
mod write;

pub(crate) use consistency::if_permitted;
pub(crate) use context::ContainerContext;
pub use feed::{
    Change, ChangeFeed, ChangeRow, FeedCursor, FeedPage, FeedRow, FeedStart, VersionRow,
};
pub use handle::ContainerClient;
pub use migrate::{Migration, MigrationStep};
pub use point::Written;
pub use query::{AvailableRows, Continuation, Page, Pages, QueryRun};
#[cfg(any(test, feature = "test-support"))]
pub use raw::RawTarget;
pub use write::{BatchOutcome, FromExecuted, SingleOperation};
