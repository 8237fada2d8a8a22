//! Tests of plans.

mod pushdown;
mod query_plan;
