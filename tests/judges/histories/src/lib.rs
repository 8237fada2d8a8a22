//! A judge of recorded histories. It knows what duroxide's documentation and this project's pages
//! promise, and the form of a record (documented at `cdb_provider::record`), but no crate of either.
//!
//! [`Record`] reads files, [`History`] finds the turns that were committed, the [`rules()`] compare both
//! with the promises.

mod history;
mod order;
mod read;
mod report;
mod rule;
mod rules;
#[cfg(test)]
mod sound;
#[cfg(test)]
mod tests;

pub use history::History;
pub use read::Record;
pub use report::{Verdict, judge, rules_table};
pub use rule::{Anomaly, Rule};
pub use rules::rules;
