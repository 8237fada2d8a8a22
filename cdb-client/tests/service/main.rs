//! The client against a service: the embedded emulator, or the account of `COSMOS_ENDPOINT` and
//! `COSMOS_KEY`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[macro_use]
mod account;
mod aggregates;
mod batches;
mod bootstrap;
mod catalog;
mod documents;
mod faults;
mod feed;
mod hostile;
mod key_prefix;
mod migrate;
mod patches;
mod predicates;
mod queries;
mod query_costs;
mod read_many;
#[path = "../../../cdb-coordination/tests/coordination/backend/removal.rs"]
mod removal;
mod search;
mod search_costs;
mod shop;
mod soft_delete;
mod splits;
mod statements;
mod stored_forms;
mod unique_keys;
mod write_times;
