//! Query planning: which queries are allowed, which part of a query the store evaluates, which indexes
//! the service would use, and the plans for clients that query several physical partitions.
//!
//! Forms of plans for clients follow the service's plans in the .NET client's tests
//! (`QueryPlanBaselineTests.*.xml`). The rewritten query is printed from the tree of the original one,
//! so its spelling can differ from the service's.

mod allowed;
mod bind;
mod condition;
mod hybrid;
mod index_use;
mod key_ranges;
mod order;
mod pushdown;
mod query_plan;
mod rewrite;

pub(crate) use allowed::{check_gateway, check_sort, not_servable, streams};
pub(crate) use bind::{bind, check_computed, needs_binding};
pub(crate) use index_use::{IndexUse, counts_only, is_served};
pub(crate) use key_ranges::KeyRanges;
pub(crate) use order::{Key, Order, ScanRange};
pub(crate) use pushdown::Pushdown;
pub(crate) use query_plan::{PlanInput, QueryPlan};

#[cfg(test)]
mod tests;
