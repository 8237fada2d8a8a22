//! Queries of documents: their scope, their pages, and plans for clients.

pub(super) mod body;
mod continuation;
mod cost_inputs;
pub(super) mod page;
pub(super) mod query_plan;
pub(super) mod run;
pub(super) mod scope;
