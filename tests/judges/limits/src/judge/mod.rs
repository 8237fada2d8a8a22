//! Judges a run by what the promises say, on both sides: never more than the limit, and the limit is used.

mod perfect;
mod record;
mod report;

pub(crate) use record::Judge;
pub(crate) use report::{Outcome, Report};
