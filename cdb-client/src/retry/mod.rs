//! Sends a request until it succeeds, fails permanently, or reaches its deadline.

mod backoff;
mod call;
mod config;
mod deadline;
mod pipeline;
mod reroute;
mod right;
mod telemetry;
#[cfg(test)]
mod tests;
mod verdict;

pub(crate) use backoff::Backoff;
#[doc(hidden)]
pub use backoff::Jitter;
pub(crate) use call::Observers;
pub use config::RetryConfig;
pub use deadline::{time_left, with_own_deadline, within_deadline};
pub(crate) use pipeline::{Pipeline, PipelineParts};
pub(crate) use verdict::{Tries, Verdict, verdict};
