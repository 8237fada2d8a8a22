//! The work coordinator on an embedded emulator: order, completion, hand-over, lost entries.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[macro_use]
#[path = "../../../cdb-coordination/tests/coordination/backend/mod.rs"]
mod backend;

mod attempts;
mod events;
mod faults;
mod handover;
mod late_answers;
mod liveness;
mod metrics;
mod order;
mod outcomes;
mod processor;
mod rebalancing;
#[path = "../../../cdb-coordination/tests/coordination/recorded/mod.rs"]
mod recorded;
mod shares;
#[path = "../../../cdb-coordination/tests/coordination/silence/mod.rs"]
mod silence;
mod silent_partition;
#[path = "../../../cdb-coordination/tests/coordination/skewed/mod.rs"]
mod skewed;
mod slow_searches;
mod strategies;
mod test_env;
mod unreadable;
mod upgrade;
