//! A second store for the suites: the in-memory emulator of the Cosmos team, over HTTP.
//!
//! The team tests its Rust driver with it. It was written outside of this project, so it finds what the client and the
//! project's own emulator get wrong alike. [`Theirs`] calls it in the process, [`Host`] serves it.

mod aggregates;
mod bulk;
mod condition;
mod exchange;
mod host;
mod patch;
mod shim;
mod sql;
mod theirs;

pub use host::{Host, KEY};
pub use shim::Partitions;
pub use sql::query_body;
pub use theirs::Theirs;
