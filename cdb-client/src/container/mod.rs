//! What a caller does with a typed container, a file per group of verbs.

mod context;
mod handle;
mod merge;
mod point;
mod query;
mod row;
mod source;

pub(crate) use context::ContainerContext;
pub use handle::ContainerClient;
pub use point::Written;
pub use query::{Pages, QueryRun, RangeRows};
