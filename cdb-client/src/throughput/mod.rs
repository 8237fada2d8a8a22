//! Request units: those that were used, and how many are left to background requests.

mod background;
mod governor;
pub(crate) mod usage;

pub use background::BackgroundConfig;
pub(crate) use background::Work;
pub(crate) use governor::{Admission, Governor};
pub(crate) use usage::{Attempt, Meter};
pub use usage::{OperationUsage, Usage};
