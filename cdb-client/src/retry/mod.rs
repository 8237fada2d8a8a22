//! Sends a request until it succeeds, fails permanently, or reaches its deadline. `send.rs` has the order of the
//! stages.

mod attempt;
mod backoff;
mod between;
mod call;
mod channel;
mod config;
mod deadline;
mod pipeline;
mod reroute;
mod rights;
mod send;
mod telemetry;
#[cfg(test)]
mod tests;
mod verdict;

pub(crate) use backoff::Backoff;
#[doc(hidden)]
pub use backoff::Jitter;
pub(crate) use call::Observers;
pub(crate) use channel::Channel;
pub use config::RetryConfig;
pub use deadline::{time_left, with_own_deadline, within_deadline};
pub(crate) use pipeline::{Pipeline, PipelineParts};
pub(crate) use verdict::{Retry, Tries, Verdict, verdict};
