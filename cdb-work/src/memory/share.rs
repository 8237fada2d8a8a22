//! Decides which virtual partitions this coordinator should hold.
//!
//! The lease provider divides the partitions among the coordinators. A partition that stays free is
//! adopted by any of them: its coordinator is at its limit, is not running, or has a version that
//! divides the partitions differently. A lease decides who holds a partition, so a wrong share
//! costs balance or time, and never order.

use std::collections::{BTreeMap, BTreeSet};

use cdb_coordination::membership::name_hash;
use cdb_model::Timestamp;
use tokio::time::Instant;

use crate::config::WorkConfig;
use crate::timing::RETURN;

/// A partition that can be taken.
pub(crate) struct Free {
    pub(crate) index: u16,
    /// The fence of its last holder; `None` if it was never held.
    pub(crate) fence: Option<u64>,
    /// The end of its last lease. A lease that was renewed since is not taken.
    pub(crate) until: Timestamp,
    /// Whether its last holder has released it. Also `true` if it was never held.
    pub(crate) was_released: bool,
    /// When it was last taken from a holder that had not released it.
    pub(crate) taken_over_at: Option<Timestamp>,
}

/// The share of this coordinator.
#[derive(Debug, Default)]
pub(crate) struct Share {
    /// The partitions from the lease provider.
    own: Vec<u16>,
    /// The ends of the adoptions.
    adopted: BTreeMap<u16, Instant>,
    /// Partitions whose adoption has ended here.
    returned: BTreeSet<u16>,
    /// The partitions that were free at the last search, with their fences.
    free: BTreeMap<u16, Option<u64>>,
    next_search: Option<Instant>,
}

impl Share {
    /// Returns the partitions to hold, of the provider's and the held ones.
    pub(crate) fn wanted(
        &mut self,
        mut own: Vec<u16>,
        held: &BTreeSet<u16>,
        now: Instant,
        config: &WorkConfig,
    ) -> BTreeSet<u16> {
        let is_new = own != self.own;
        if is_new {
            self.own.clone_from(&own);
        }
        let adopted = std::mem::take(&mut self.adopted);
        for (index, end) in adopted {
            if !held.contains(&index) || own.contains(&index) {
                continue;
            }
            if is_new || now >= end {
                self.returned.insert(index);
                self.next_search = Some(now + config.upkeep * RETURN);
            } else {
                self.adopted.insert(index, end);
            }
        }
        own.sort_by_key(|index| !held.contains(index));
        let adopted = self.adopted.keys().copied();
        own.into_iter()
            .chain(adopted)
            .take(config.max_partitions.into())
            .collect()
    }

    /// Returns `true` if the provider has assigned partitions to this coordinator.
    pub(crate) fn is_serving(&self) -> bool {
        !self.own.is_empty()
    }

    /// Returns `true` if free partitions should be searched now.
    pub(crate) fn is_search_due(&mut self, now: Instant, config: &WorkConfig) -> bool {
        let due = *self.next_search.get_or_insert(now + config.lease);
        if due > now {
            return false;
        }
        self.next_search = Some(now + config.lease);
        true
    }

    /// Adopts up to `room` partitions until `end`: half of those that were free at the last search
    /// too, so that other coordinators adopt some.
    pub(crate) fn adopt(
        &mut self,
        found: Vec<Free>,
        coordinator: &str,
        room: usize,
        end: Instant,
    ) -> Vec<Free> {
        let fences = found.iter().map(|free| (free.index, free.fence));
        let before = std::mem::replace(&mut self.free, fences.collect());
        let returned = std::mem::take(&mut self.returned);
        let is_orphan = |free: &Free| {
            before.get(&free.index) == Some(&free.fence) || returned.contains(&free.index)
        };
        let mut orphans: Vec<Free> = found.into_iter().filter(is_orphan).collect();
        // Coordinators prefer different partitions.
        orphans.sort_by_cached_key(|free| name_hash(&format!("{coordinator} {}", free.index)));
        orphans.truncate(orphans.len().div_ceil(2).min(room));
        for orphan in &orphans {
            let index = orphan.index;
            tracing::info!(index, "adopting a partition that stayed free");
            self.adopted.insert(index, end);
        }
        orphans
    }
}
