//! What operators and the background do: management, rewinds, replay, retention, takeover, shutdown.

pub(crate) mod admin;
pub(crate) mod dead_letters;
pub(crate) mod housekeeping;
pub(crate) mod limits;
mod metrics;
pub mod observe;
pub(crate) mod pause;
pub mod replay;
pub(crate) mod retention;
pub(crate) mod rewind;
mod search;
pub(crate) mod shutdown;
pub(crate) mod stats;
pub(crate) mod takeover;

pub use pause::TreeScope;
pub use search::InstanceSearch;

pub(crate) use metrics::Metrics;
