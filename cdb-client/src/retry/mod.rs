//! Sending until it works, until it cannot, or until the time is up.

mod backoff;
mod config;
mod pipeline;
mod settled;
#[cfg(test)]
mod tests;
mod verdict;

pub(crate) use backoff::{Backoff, Jitter};
pub use config::RetryConfig;
pub(crate) use pipeline::{Pipeline, PipelineParts};
pub(crate) use settled::Settled;
pub(crate) use verdict::{Outcome, Repeat, Tries, Verdict, verdict};
