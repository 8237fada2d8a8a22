//! Leases on the emulator, or on the account that `COSMOS_ENDPOINT` and `COSMOS_KEY` name.

mod account;
mod bad_input;
mod clocks;
mod explicit;
mod guard;
mod health;
mod lost_answers;
mod repository;
mod take_next;
