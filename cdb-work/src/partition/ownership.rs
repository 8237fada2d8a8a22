//! Takes and releases virtual partitions, so that each has one owner at a time: only the owner hands out
//! the messages of a partition.
//!
//! The share (`memory/share.rs`) says which partitions this coordinator should own. A conditional patch
//! decides which it does own. Every change of the owner raises the fence, so order and exactly-once
//! completion never depend on the time of a lease.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Weak;
use std::sync::atomic::Ordering;

use cdb_client::Error;
use cdb_client::query::AvailableRows;
use cdb_model::{Document as _, PartitionKey, Patch, Query, Timestamp};
use futures::{StreamExt as _, stream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::round::next_round;
use crate::error::WorkError;
use crate::memory::inner::Inner;
use crate::memory::queue::extract;
use crate::memory::share::Free;
use crate::memory::state::Owned;
use crate::memory::unreadable::report;
use crate::streams::documents::{WorkPartition, WorkPartitionKey};
use crate::streams::order::Streams;
use crate::telemetry;
use crate::timing::ADOPTION;
use cdb_coordination::search::Rows;

/// The most concurrent requests about partitions.
const AT_A_TIME: usize = 64;

/// The most partitions that the query for free ones names. It reads all partitions otherwise.
const MOST_NAMED: usize = 256;

/// Whether this coordinator has given up a partition, or did not own it under the fence any more.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    GivenUp,
    NotOwned,
}

/// Maintains the partitions until the coordinator is dropped.
pub(crate) async fn run(inner: Weak<Inner>, stop: CancellationToken) {
    while let Some(inner) = next_round(&inner, &stop).await {
        if let Err(error) = inner.upkeep().await {
            tracing::warn!(%error, "maintaining the partitions failed");
        }
    }
}

impl Inner {
    /// Releases unwanted partitions and takes free ones. Sends nothing if there is nothing to do.
    pub(crate) async fn upkeep(&self) -> Result<(), WorkError> {
        let _upkeep = self.upkeep.lock().await;
        let wanted = self.wanted().await;
        let mut unwanted = Vec::new();
        let mut missing = wanted.clone();
        let (now, config) = (Instant::now(), &self.config);
        for (index, owned) in self.state().owned() {
            let is_wanted = missing.remove(&index);
            let was_draining = owned.draining;
            owned.drain(is_wanted, now, config);
            if owned.draining {
                unwanted.push(index);
            } else if was_draining {
                // Searches have left its messages out while it was to be released.
                self.sweep_wanted.store(true, Ordering::Release);
                self.news.notify_waiters();
            }
        }
        telemetry::partitions(self.state().owned().count(), wanted.len());
        let missing = missing.into_iter().collect();
        // At the same time, so that a partition that does not answer delays only its own step.
        let (taken, (), ()) = tokio::join!(
            self.take_free(missing, wanted),
            self.release_each(unwanted, false),
            self.write_own_entries(|_| true)
        );
        taken
    }

    /// Takes those of the missing partitions that are free, and adopts partitions that stayed free.
    async fn take_free(&self, missing: Vec<u16>, wanted: BTreeSet<u16>) -> Result<(), WorkError> {
        let mut free = Vec::new();
        if !missing.is_empty() {
            free = self.find_free(&missing).await?;
        }
        free.extend(self.adopt_orphans(&wanted).await?);
        let taken = stream::iter(free);
        taken
            .for_each_concurrent(AT_A_TIME, async |free| {
                let index = free.index;
                if let Err(error) = self.while_answering(index, self.take(free)).await {
                    tracing::debug!(index, %error, "a partition was not taken");
                }
            })
            .await;
        Ok(())
    }

    /// Returns the partitions that this coordinator should own. Ends adoptions whose time is over.
    pub(crate) async fn wanted(&self) -> BTreeSet<u16> {
        let parts = self.slots.parts(self.config.partitions.count().into());
        let own = parts.await.into_iter().map(u16::try_from);
        let own = own.filter_map(Result::ok).collect();
        let owned = self.state().owned().map(|(index, _)| index).collect();
        self.share()
            .wanted(own, &owned, Instant::now(), &self.config)
    }

    /// Adopts partitions outside of the share that stayed free. Returns them, to take them too.
    async fn adopt_orphans(&self, wanted: &BTreeSet<u16>) -> Result<Vec<Free>, WorkError> {
        let (config, now) = (&self.config, Instant::now());
        let room = usize::from(config.max_partitions).saturating_sub(wanted.len());
        let mut others: Vec<u16> = self.config.partitions.all().collect();
        // An owned partition that is not wanted waits for its handlers.
        others.retain(|index| !wanted.contains(index) && !self.owns(*index));
        // A coordinator without a share is leaving, or was replaced.
        let is_serving = self.share().is_serving();
        let can_adopt = is_serving && room > 0 && !others.is_empty();
        if !self.share().is_search_due(now, config) || !can_adopt {
            return Ok(Vec::new());
        }
        let found = self.find_free(&others).await?;
        let mut share = self.share();
        Ok(share.adopt(found, &self.id, room, now + config.lease * ADOPTION))
    }

    /// Returns those of the partitions that no coordinator owns, and those whose document names this
    /// coordinator: it has taken them by a request without an answer.
    pub(crate) async fn find_free(&self, missing: &[u16]) -> Result<Vec<Free>, WorkError> {
        let mut query = Query::<WorkPartition>::across_partitions();
        if missing.len() <= MOST_NAMED {
            let names = missing.iter().map(|&at| self.config.partitions.name(at));
            query = query.filter(WorkPartition::PARTITION.is_in(names));
        }
        let read = self.container.query(query).row_by_row().all_available();
        let AvailableRows {
            rows, is_complete, ..
        } = read.await?;
        let found = Rows::apart(rows);
        found.unreadable.iter().for_each(report);
        // The owner of an unreadable partition is unknown.
        let unreadable = found
            .unreadable
            .iter()
            .filter_map(|one| one.location.as_ref());
        let unreadable: HashSet<&PartitionKey> = unreadable.map(|at| &at.partition_key).collect();
        let rows = found.rows.into_iter();
        let stored: HashMap<String, WorkPartition> = rows
            .map(|row| (row.document.partition.clone(), row.document))
            .collect();
        let now = self.container.now();
        let free = missing.iter().filter_map(|&index| {
            let name = self.config.partitions.name(index);
            if unreadable.contains(&PartitionKey::from(name.as_str())) {
                return None;
            }
            let Some(lease) = stored.get(&name) else {
                // The document of a partition that has not answered is unknown.
                let is_new = is_complete || !self.is_silent(index);
                return is_new.then_some(Free {
                    index,
                    fence: None,
                    until: Timestamp::default(),
                    was_released: true,
                    taken_over_at: None,
                });
            };
            let is_free = lease.owner.is_none()
                || lease.until <= now
                || lease.owner.as_deref() == Some(&*self.id);
            is_free.then_some(Free {
                index,
                fence: Some(lease.fence),
                until: lease.until,
                was_released: lease.owner.is_none(),
                taken_over_at: lease.taken_over_at,
            })
        });
        Ok(free.collect())
    }

    /// Takes a free partition, unless this coordinator owns it: a new fence would void its claims.
    async fn take(&self, free: Free) {
        let index = free.index;
        if self.stop.is_cancelled() || self.owns(index) {
            return;
        }
        let now = self.container.now();
        let until = now + self.config.lease;
        let fence = free.fence.map_or(1, |former| former + 1);
        let taken_over_at = if free.was_released {
            free.taken_over_at
        } else {
            Some(now)
        };
        let won = match free.fence {
            None => {
                let lease = WorkPartition {
                    partition: self.config.partitions.name(index),
                    owner: Some(self.id.to_string()),
                    fence,
                    until,
                    token: String::new(),
                    taken_over_at,
                };
                self.container.run(lease.create()).await.map(drop)
            }
            Some(former) => {
                let patch = Patch::<WorkPartition>::new()
                    .set(WorkPartition::OWNER, Some(self.id.to_string()))
                    .set(WorkPartition::FENCE, fence)
                    .set(WorkPartition::UNTIL, until)
                    .set(WorkPartition::TOKEN, String::new())
                    .set(WorkPartition::TAKEN_OVER_AT, taken_over_at)
                    .when(WorkPartition::FENCE.eq(former))
                    .when_eq(WorkPartition::UNTIL, free.until);
                self.container
                    .run(patch.at(&self.lease_key(index)))
                    .await
                    .map(drop)
            }
        };
        let won = match won {
            Err(error) if error.is_ambiguous() => self.is_stored(index, fence).await,
            other => other.map(|()| true),
        };
        match won {
            Ok(true) => self.note_taken(index, until, Streams::new(fence, taken_over_at)),
            Ok(false) => {}
            // Another coordinator was faster, or the next round tries again.
            Err(error) => tracing::debug!(index, %error, "a partition was not taken"),
        }
    }

    fn owns(&self, index: u16) -> bool {
        self.state().fence_of(index).is_some()
    }

    /// Whether this coordinator is the stored owner of a partition.
    async fn is_stored(&self, index: u16, fence: u64) -> Result<bool, Error> {
        let latest = self.container.latest_committed();
        let read = latest.read(&self.lease_key(index)).await?;
        Ok(read.is_some_and(|stored| {
            stored.document.fence == fence && stored.document.owner.as_deref() == Some(&*self.id)
        }))
    }

    fn note_taken(&self, index: u16, until: Timestamp, streams: Streams) {
        telemetry::lease("claimed");
        let fence = streams.fence();
        tracing::debug!(index, fence, "a partition was taken");
        self.state().partition(index).owned = Some(Owned {
            fence,
            until,
            streams,
            ..Owned::default()
        });
        self.sweep_wanted.store(true, Ordering::Release);
        self.news.notify_waiters();
    }

    /// Gives up a partition that another coordinator has taken.
    pub(crate) fn lose(&self, index: u16, fence: u64) {
        if self.give_up(index, fence) == Loss::GivenUp {
            telemetry::lease("lost");
            tracing::warn!(index, "another coordinator has taken a partition");
        }
    }

    /// Forgets a partition and refuses its reports, if it is owned under this fence.
    fn give_up(&self, index: u16, fence: u64) -> Loss {
        let mut state = self.state();
        let partition = state.partition(index);
        if partition
            .owned
            .take_if(|owned| owned.fence == fence)
            .is_none()
        {
            return Loss::NotOwned;
        }
        let void = extract(&mut partition.queue, |pending| pending.report().is_some());
        drop(state);
        for pending in void {
            pending.settle_void();
        }
        self.news.notify_waiters();
        Loss::GivenUp
    }

    /// Releases every partition after the stop. Later reports are refused.
    pub(crate) async fn release_all(&self) {
        // Partitions that are being taken are released too.
        let _upkeep = self.upkeep.lock().await;
        let owned: Vec<u16> = self.state().owned().map(|(index, _)| index).collect();
        self.release_each(owned, true).await;
    }

    async fn release_each(&self, indexes: Vec<u16>, force: bool) {
        stream::iter(indexes)
            .for_each_concurrent(AT_A_TIME, async |index| {
                // The lease stays until it expires.
                if let Err(error) = self
                    .while_answering(index, self.release(index, force))
                    .await
                {
                    tracing::debug!(index, %error, "a partition was not released");
                }
            })
            .await;
    }

    /// Releases a partition when no message of it is claimed, or by `force`.
    async fn release(&self, index: u16, force: bool) {
        let gate = self.gates.get(usize::from(index));
        let Some(gate) = gate else { return };
        // No batch is in flight while the lock is held.
        let _gate = gate.lock().await;
        let fence = {
            let mut state = self.state();
            let partition = state.partition(index);
            let Some(owned) = &mut partition.owned else {
                return;
            };
            owned.draining = true;
            let at_rest = owned.streams.is_at_rest()
                && partition
                    .queue
                    .iter()
                    .all(|pending| pending.report().is_none());
            if !at_rest && !force {
                return;
            }
            owned.fence
        };
        let patch = Patch::<WorkPartition>::new()
            .set(WorkPartition::OWNER, None)
            .set(WorkPartition::UNTIL, Timestamp::default())
            .when(WorkPartition::FENCE.eq(fence));
        match self.container.run(patch.at(&self.lease_key(index))).await {
            Ok(_) if self.give_up(index, fence) == Loss::GivenUp => telemetry::lease("released"),
            // A renewal has found another owner.
            Ok(_) => {}
            Err(error) if error.is_precondition_failed() || error.is_not_found() => {
                self.lose(index, fence);
            }
            // The lease stays until it expires.
            Err(error) => {
                tracing::debug!(index, %error, "a partition was not released; its lease expires");
                if force {
                    // Other callers of the shutdown do not wait for another attempt.
                    let _given_up_before = self.give_up(index, fence);
                }
            }
        }
    }

    pub(crate) fn lease_key(&self, index: u16) -> WorkPartitionKey {
        WorkPartitionKey::new(self.config.partitions.name(index))
    }
}
