//! Partitions for tests.

use tokio::time::Instant;

use super::breakers::PartitionHealth;
use super::circuit::Known;
use crate::partitions::ranges::PhysicalPartitionId;

pub(super) fn ids(ids: &[&str]) -> Vec<PhysicalPartitionId> {
    serde_json::from_value(serde_json::json!(ids)).expect("a range id is a string")
}

pub(super) fn health(ranges: &[&str]) -> PartitionHealth {
    let health = PartitionHealth::default();
    let new = |range| (range, Known::new(Instant::now()));
    health.circuits().extend(ids(ranges).into_iter().map(new));
    health
}
