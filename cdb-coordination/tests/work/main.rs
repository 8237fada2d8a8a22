//! The work coordinator on an emulator in this process: order, ends that happen once, hand-over, what is lost.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail as loudly as the tests"
)]

mod events;
mod faults;
mod handover;
mod order;
mod strategies;
mod world;
