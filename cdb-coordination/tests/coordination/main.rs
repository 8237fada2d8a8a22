//! Leases, messages, change feeds and stores on the emulator, or on the account that `COSMOS_ENDPOINT` and
//! `COSMOS_KEY` name.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[macro_use]
mod backend;
mod change_feed;
mod child;
mod contract_negotiation;
mod equal_content;
mod lease;
mod lease_race;
mod messaging;
mod order_payment_stock;
mod recorded;
mod requests;
mod silence;
mod skewed;
mod stored_message;
mod upgrade;
