//! The work coordinator on an emulator in this process: order, ends that happen once, hand-over, what is lost.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail as loudly as the tests"
)]

#[path = "../backend/mod.rs"]
mod backend;
mod events;
mod faults;
mod handover;
mod metrics;
mod order;
#[path = "../recorded/mod.rs"]
mod recorded;
#[path = "../skewed/mod.rs"]
mod skewed;
mod strategies;
mod unreadable;
mod world;
