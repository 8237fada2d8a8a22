//! Typed containers: one file per group of operations.

mod batch;
mod bootstrap;
mod bulk;
mod change;
mod conflict;
mod context;
mod difference;
mod extend;
mod feed;
mod feed_cursor;
mod feed_row;
mod handle;
mod live;
mod merge;
mod metadata;
mod migrate;
mod opening_checks;
mod page;
mod point;
mod query;
mod reach;
mod read_many;
mod row;
mod run;
mod search;
mod search_definition;
mod soft_delete;
mod source;
#[cfg(test)]
mod tests;
mod unique_keys;
mod update;

pub use batch::BatchOutcome;
pub use bootstrap::{Bootstrap, BootstrapConfig, OnDifference, Throughput};
pub use change::ContainerChange;
pub(crate) use context::ContainerContext;
pub use difference::Difference;
pub use feed::{ChangeFeed, FeedPage};
pub use feed_cursor::{FeedCursor, FeedStart};
pub use feed_row::{Change, ChangeRow, FeedRow, VersionRow};
pub use handle::ContainerClient;
pub use migrate::{Migration, MigrationStep};
pub use page::{Continuation, Page};
pub use point::Written;
pub use query::{AvailableRows, Pages, QueryRun};
pub use run::{FromExecuted, SingleOperation};
