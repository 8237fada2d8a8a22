//! Sends a request until it succeeds, fails permanently, or reaches its deadline.

mod accepted;
mod backoff;
mod config;
#[cfg(test)]
mod failover_tests;
mod pipeline;
mod reroute;
mod right;
#[cfg(test)]
mod rights_tests;
#[cfg(test)]
mod tests;
mod verdict;

pub(crate) use accepted::Accepted;
pub(crate) use backoff::Backoff;
pub use backoff::Jitter;
pub use config::RetryConfig;
pub(crate) use pipeline::{Observers, Pipeline, PipelineParts};
pub(crate) use verdict::{Outcome, Repeat, Tries, Verdict, verdict};
