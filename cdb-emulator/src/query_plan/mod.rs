//! Query plans for clients that query several physical partitions: the merge, the query that each
//! partition runs, and the ranges with results.
//!
//! Forms follow the service's plans in the .NET client's tests (`QueryPlanBaselineTests.*.xml`).
//! The rewritten query is printed from the tree of the original one, so its spelling can differ
//! from the service's.

mod hybrid;
mod plan;
mod ranges;
mod rewrite;

pub(crate) use plan::{Query, QueryPlan};

#[cfg(test)]
mod tests;
