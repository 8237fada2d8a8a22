//! Decides which virtual partitions this coordinator should hold.
//!
//! The lease provider divides the partitions among the coordinators. A partition that stays free is
//! adopted by any of them: its coordinator is at its limit, is not running, or has a version that
//! divides the partitions differently. A lease decides who holds a partition, so a wrong share
//! costs balance or time, and never order.

use std::collections::{BTreeMap, BTreeSet};

use cdb_coordination::name_hash;
use tokio::time::{Duration, Instant};

use super::error::WorkError;
use super::inner::Inner;
use super::ownership::Free;

/// How long a partition stays adopted, in leases. Then its own coordinator can take it.
const ADOPTION: u32 = 20;

/// How many intervals of upkeep its own coordinator has for that.
const RETURN: u32 = 3;

/// The share of this coordinator.
#[derive(Debug, Default)]
pub(super) struct Share {
    /// The partitions from the lease provider.
    own: Vec<u16>,
    /// The ends of the adoptions.
    adopted: BTreeMap<u16, Instant>,
    /// Partitions whose adoption has ended here.
    returned: BTreeSet<u16>,
    /// The partitions that were free at the last search, with their fences; 0 if never held.
    free: BTreeMap<u16, u64>,
    next_search: Option<Instant>,
}

/// The limits of a share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) partitions: usize,
    pub(super) lease: Duration,
    pub(super) upkeep: Duration,
}

impl Share {
    /// Returns the partitions to hold, of the provider's and the held ones.
    fn wanted(
        &mut self,
        mut own: Vec<u16>,
        held: &BTreeSet<u16>,
        now: Instant,
        limits: Limits,
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
                self.next_search = Some(now + limits.upkeep * RETURN);
            } else {
                self.adopted.insert(index, end);
            }
        }
        own.sort_by_key(|index| !held.contains(index));
        let adopted = self.adopted.keys().copied();
        own.into_iter()
            .chain(adopted)
            .take(limits.partitions)
            .collect()
    }

    /// Returns `true` if free partitions should be searched now.
    fn is_search_due(&mut self, now: Instant, limits: Limits) -> bool {
        let due = *self.next_search.get_or_insert(now + limits.lease);
        if due > now {
            return false;
        }
        self.next_search = Some(now + limits.lease);
        true
    }

    /// Selects the partitions to adopt, up to `room`: half of those that were free at the last
    /// search too, so that other coordinators adopt some.
    fn adopt(&mut self, found: Vec<Free>, coordinator: &str, room: usize) -> Vec<Free> {
        let fences = found.iter().map(|free| (free.index(), free.fence()));
        let fences: BTreeMap<u16, u64> = fences.collect();
        let before = std::mem::replace(&mut self.free, fences);
        let returned = std::mem::take(&mut self.returned);
        let is_orphan = |free: &Free| {
            let index = free.index();
            before.get(&index) == Some(&free.fence()) || returned.contains(&index)
        };
        let mut orphans: Vec<Free> = found.into_iter().filter(is_orphan).collect();
        // Coordinators prefer different partitions.
        orphans.sort_by_cached_key(|free| name_hash(&format!("{coordinator} {}", free.index())));
        orphans.truncate(orphans.len().div_ceil(2).min(room));
        orphans
    }
}

impl Inner {
    /// Returns the partitions that this coordinator should hold.
    pub(super) async fn wanted(&self) -> BTreeSet<u16> {
        let parts = self.slots.parts(self.config.partitions.count().into());
        let own = parts.await.into_iter().map(u16::try_from);
        let own = own.filter_map(Result::ok).collect();
        let held = self.state().owned().map(|(index, _)| index).collect();
        let limits = self.share_limits();
        self.share().wanted(own, &held, Instant::now(), limits)
    }

    /// Returns partitions outside of the share that stayed free, to take them too.
    pub(super) async fn find_orphans(
        &self,
        wanted: &BTreeSet<u16>,
    ) -> Result<Vec<Free>, WorkError> {
        let (limits, now) = (self.share_limits(), Instant::now());
        let room = limits.partitions.saturating_sub(wanted.len());
        let all = self.config.partitions.all();
        let others: Vec<u16> = all.filter(|index| !wanted.contains(index)).collect();
        // A coordinator without a share is leaving, or was replaced.
        let is_serving = !self.share().own.is_empty();
        let can_adopt = is_serving && room > 0 && !others.is_empty();
        if !self.share().is_search_due(now, limits) || !can_adopt {
            return Ok(Vec::new());
        }
        let found = self.find_free(&others).await?;
        let mut share = self.share();
        let orphans = share.adopt(found, &self.id, room);
        let end = now + limits.lease * ADOPTION;
        for orphan in &orphans {
            tracing::info!(
                index = orphan.index(),
                "adopting a partition that stayed free"
            );
            share.adopted.insert(orphan.index(), end);
        }
        Ok(orphans)
    }

    fn share_limits(&self) -> Limits {
        Limits {
            partitions: self.config.max_partitions.into(),
            lease: self.config.lease,
            upkeep: self.config.upkeep,
        }
    }
}
