//! The plan that a client asks for before it queries several physical partitions: what it has to merge, the query that
//! each partition runs, and which partitions hold results.
//!
//! Forms follow the service's plans in the .NET client's tests (`QueryPlanBaselineTests.*.xml`). The rewritten query is
//! printed from the tree of the original one, so its spelling can differ from the service's.

mod plan;
mod ranges;
mod rewrite;

pub(crate) use plan::{Query, QueryPlan};

#[cfg(test)]
mod tests;
