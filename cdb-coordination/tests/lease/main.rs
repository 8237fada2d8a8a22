//! Leases on the emulator, or on the account that `COSMOS_ENDPOINT` and `COSMOS_KEY` name.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod account;
#[path = "../backend/mod.rs"]
mod backend;
mod bad_input;
mod clocks;
mod explicit;
mod guard;
mod health;
mod lost_answers;
#[path = "../recorded/mod.rs"]
mod recorded;
#[path = "../skewed/mod.rs"]
mod skewed;
mod store;
mod take_next;
