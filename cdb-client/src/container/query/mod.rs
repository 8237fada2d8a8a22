//! Queries of one partition or several: their targets, pages and merged rows; and searches.

mod merge;
pub(crate) mod page;
mod reach;
mod read_many;
mod row;
mod run;
mod search;
mod source;

pub use page::Continuation;
pub use run::{AvailableRows, Pages, QueryRun};
