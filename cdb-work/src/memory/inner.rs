//! The shared state of a coordinator's handles, and its queue of entries.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use cdb_client::ContainerClient;
use cdb_model::PartitionKey;
use futures::StreamExt as _;
use futures::stream;
use tokio::sync::{Mutex as Gate, Notify};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::plan::Heads;
use super::poller::Poller;
use super::queue::{Pending, extract};
use super::share::Share;
use super::state::State;
use crate::config::WorkConfig;
use crate::error::WorkError;
use crate::streams::claim::Claim;
use crate::streams::documents::{Lane, Work};
use crate::streams::order::Streams;
use crate::streams::stream::{Change, ClaimState, StreamKey};
use crate::telemetry;
use crate::timing::{LEAST_WAIT, NOTHING_DUE};
use cdb_coordination::membership::LeaseProvider;

/// The most concurrent batches. More would wait for each other in the service.
const AT_A_TIME: usize = 16;

/// The shared state.
pub(crate) struct Inner {
    pub(crate) container: ContainerClient<Work>,
    pub(crate) config: WorkConfig,
    pub(crate) slots: Arc<dyn LeaseProvider>,
    /// Unique in the container: a restarted coordinator has a new id.
    pub(crate) id: Arc<str>,
    state: Mutex<State>,
    share: Mutex<Share>,
    /// One lock per partition, held while writing, with the known heads of its streams.
    pub(crate) gates: Vec<Gate<Heads>>,
    pub(crate) poller: Gate<Poller>,
    /// Held while partitions are taken or released.
    pub(crate) upkeep: Gate<()>,
    /// Set after partitions were taken over: all their messages must be found.
    pub(crate) sweep_wanted: AtomicBool,
    /// Notifies that another message can be claimed.
    pub(crate) news: Notify,
    pub(crate) stop: CancellationToken,
    /// For claims that return themselves on drop.
    pub(crate) this: Weak<Inner>,
}

impl Inner {
    pub(crate) fn new(
        container: ContainerClient<Work>,
        slots: Arc<dyn LeaseProvider>,
        config: WorkConfig,
    ) -> Arc<Self> {
        let count = config.partitions.count();
        let id = format!("{}-{}", config.name, uuid::Uuid::new_v4());
        Arc::new_cyclic(|this| Self {
            container,
            slots,
            id: id.into(),
            state: Mutex::new(State::new(count)),
            share: Mutex::default(),
            gates: (0..count).map(|_| Gate::default()).collect(),
            poller: Gate::default(),
            upkeep: Gate::default(),
            sweep_wanted: AtomicBool::new(false),
            news: Notify::new(),
            stop: CancellationToken::new(),
            this: this.clone(),
            config,
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn share(&self) -> MutexGuard<'_, Share> {
        self.share.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the entries at these places. Entries that cannot be written now are withdrawn with
    /// the error, which is returned. When cancelled, the coordinator writes them later.
    pub(crate) async fn write_now(&self, places: Vec<(u16, u64)>) -> Option<WorkError> {
        let mut unwritten = Unwritten {
            inner: self,
            places,
        };
        let error = self.write_or_withdraw(&unwritten.places).await;
        unwritten.places.clear();
        error
    }

    async fn write_or_withdraw(&self, places: &[(u16, u64)]) -> Option<WorkError> {
        let written = partitions_of(places)
            .into_iter()
            .map(|at| self.write_or_withdraw_in(at, places));
        let errors: Vec<Option<WorkError>> = stream::iter(written)
            .buffer_unordered(AT_A_TIME)
            .collect()
            .await;
        errors.into_iter().flatten().next()
    }

    async fn write_or_withdraw_in(
        &self,
        partition: u16,
        places: &[(u16, u64)],
    ) -> Option<WorkError> {
        let error = self.flush_partition(partition).await.err()?;
        let own = places.iter().filter(|(at, _)| *at == partition);
        let numbers = own.map(|(_, number)| *number).collect();
        let gate = self.gates.get(usize::from(partition))?;
        // No batch is in flight while the lock is held.
        let _held = gate.lock().await;
        self.withdraw(partition, &numbers, &error);
        Some(error)
    }

    /// Writes the starts of attempts at these places like [`write_now`](Self::write_now). Returns
    /// the partitions that do not answer. The coordinator writes their starts later.
    pub(crate) async fn write_starts(&self, places: Vec<(u16, u64)>) -> BTreeSet<u16> {
        let mut unwritten = Unwritten {
            inner: self,
            places,
        };
        let places = &unwritten.places;
        let written = partitions_of(places).into_iter().map(async |at| {
            let written = self.write_or_withdraw_in(at, places);
            Box::pin(self.while_answering(at, written))
                .await
                .err()
                .map(|_| at)
        });
        let silent: Vec<Option<u16>> = stream::iter(written)
            .buffer_unordered(AT_A_TIME)
            .collect()
            .await;
        let silent: BTreeSet<u16> = silent.into_iter().flatten().collect();
        unwritten.places.retain(|(at, _)| silent.contains(at));
        silent
    }

    /// Writes the entries at these places and all entries queued with them. Keeps the places of
    /// entries that cannot be written now, which stay queued. A partition that does not answer
    /// delays no other flush for long.
    pub(crate) async fn write_or_keep(
        &self,
        places: &mut Vec<(u16, u64)>,
    ) -> Result<(), WorkError> {
        let written = partitions_of(places).into_iter().map(async |at| {
            let flushed = Box::pin(self.while_answering(at, self.flush_partition(at))).await;
            (at, flushed.and_then(|flushed| flushed))
        });
        let results: Vec<(u16, Result<(), WorkError>)> = stream::iter(written)
            .buffer_unordered(AT_A_TIME)
            .collect()
            .await;
        let failed = results
            .into_iter()
            .filter_map(|(at, result)| Some((at, result.err()?)));
        let failed: BTreeMap<u16, WorkError> = failed.collect();
        places.retain(|(at, _)| failed.contains_key(at));
        let is_unanswered = |error: &WorkError| matches!(error, WorkError::Unanswered { .. });
        let error = failed.into_values().min_by_key(is_unanswered);
        error.map_or(Ok(()), Err)
    }

    /// Whether the physical partition of a virtual one does not answer, while others do.
    pub(crate) fn is_silent(&self, partition: u16) -> bool {
        !self.container.health().all_answer() && self.container.is_silent(&self.key_of(partition))
    }

    /// Awaits work in a virtual partition while its physical partition answers.
    ///
    /// # Errors
    /// [`WorkError::Unanswered`] when it does not answer while others do. The work is dropped.
    pub(crate) async fn while_answering<T>(
        &self,
        partition: u16,
        work: impl Future<Output = T>,
    ) -> Result<T, WorkError> {
        let key = self.key_of(partition);
        let done = self.container.while_answering(&key, work).await;
        done.map_err(|backoff| WorkError::Unanswered {
            partition: self.config.partitions.name(partition),
            backoff,
        })
    }

    fn key_of(&self, partition: u16) -> PartitionKey {
        PartitionKey::from(self.config.partitions.name(partition))
    }

    /// Removes entries that no strategy will write any more, and logs them.
    pub(crate) fn abandon(&self, places: &[(u16, u64)]) {
        let mut lost = Vec::new();
        for partition in partitions_of(places) {
            let own = places.iter().filter(|(at, _)| *at == partition);
            let numbers = own.map(|(_, number)| *number).collect();
            lost.extend(self.withdraw(partition, &numbers, &WorkError::Unflushed));
        }
        report_lost(&lost);
    }

    /// Removes entries from the queue, and the later reports of their streams. Returns the removed
    /// messages. An entry whose batch may be written is not removed: the coordinator finds out.
    fn withdraw(&self, partition: u16, numbers: &BTreeSet<u64>, reason: &WorkError) -> Vec<String> {
        let mut state = self.state();
        let queue = &mut state.partition(partition).queue;
        let sent = queue.iter().filter(|pending| pending.is_sent);
        let unknown: HashSet<StreamKey> = sent
            .filter_map(|pending| pending.report().map(|report| report.claim.key.clone()))
            .collect();
        let may_leave = |pending: &Pending| {
            let key = pending.report().map(|report| &report.claim.key);
            !pending.is_sent && key.is_none_or(|key| !unknown.contains(key))
        };
        let taken = extract(queue, |pending| {
            numbers.contains(&pending.number) && may_leave(pending)
        });
        let kept = queue.iter_mut();
        for pending in kept.filter(|pending| numbers.contains(&pending.number)) {
            pending.answer(Err(reason.clone()));
        }
        let removed: BTreeSet<u64> = taken.iter().map(|pending| pending.number).collect();
        let kept = numbers.difference(&removed);
        let kept: Vec<(u16, u64)> = kept.map(|number| (partition, *number)).collect();
        state.own_entries.extend(kept);
        drop(state);
        let ids = taken.iter().map(|pending| pending.message_id().to_owned());
        let ids = ids.collect();
        self.settle_void(partition, taken, reason);
        ids
    }

    /// Settles entries with an error. The streams of reports continue from what is stored.
    fn settle_void(&self, partition: u16, entries: Vec<Pending>, reason: &WorkError) {
        for pending in entries {
            // The claim of an attempt that was not started returns itself.
            let results = pending
                .report()
                .filter(|report| report.change != Change::Start);
            let key = results.map(|report| report.claim.key.clone());
            pending.settle(Err(reason.clone()));
            if let Some(key) = key {
                self.roll_back(partition, &key, &mut Vec::new());
            }
        }
    }

    /// Refuses the reports of a stream, queued and in flight: the stream continues from what is
    /// stored.
    pub(crate) fn roll_back(&self, partition: u16, key: &StreamKey, flight: &mut Vec<Pending>) {
        let of_stream = |pending: &Pending| pending.is_report_of(key);
        let mut void: Vec<Pending> = flight
            .extract_if(.., |pending| of_stream(pending))
            .collect();
        let mut state = self.state();
        let held = state.partition(partition);
        void.extend(extract(&mut held.queue, of_stream));
        if let Some(owned) = &mut held.owned {
            owned.streams.roll_back(key);
        }
        drop(state);
        Self::fail_later(key, void);
        self.news.notify_waiters();
    }

    /// Fails reports that follow a failed report of their stream.
    pub(crate) fn fail_later(key: &StreamKey, void: Vec<Pending>) {
        for pending in void {
            let reason = WorkError::AfterFailure {
                stream: key.stream().to_owned(),
                message_id: pending.message_id().to_owned(),
            };
            pending.settle(Err(reason));
        }
    }

    pub(crate) fn give_back(&self, claim: &Claim) {
        let given = self.with_streams(claim, |streams| streams.give_back(claim.in_stream()));
        if given == ClaimState::Valid {
            self.news.notify_waiters();
        }
    }

    /// Changes the streams of a claim, if the partition is held under its fence.
    pub(crate) fn with_streams(
        &self,
        claim: &Claim,
        change: impl FnOnce(&mut Streams) -> ClaimState,
    ) -> ClaimState {
        let mut state = self.state();
        let good = state.owned_under(claim);
        good.map_or(ClaimState::Void, |owned| change(&mut owned.streams))
    }

    /// When the next known message of a lane, or of any, is due, by this process's clock.
    pub(crate) fn next_due_at(&self, lane: Option<Lane>, now: Instant) -> Instant {
        let service = self.container.now();
        let mut state = self.state();
        let selection = state.selection(lane);
        let due = state
            .owned()
            .filter(|(_, owned)| owned.hands_out(service))
            .filter_map(|(_, owned)| owned.streams.next_at(selection))
            .min();
        due.map_or(now + NOTHING_DUE, |due| {
            now + due.since(service).max(LEAST_WAIT)
        })
    }

    /// The places of all queued entries.
    pub(crate) fn queued(&self) -> Vec<(u16, u64)> {
        let state = self.state();
        let indexed = (0..).zip(&state.partitions);
        indexed
            .flat_map(|(index, partition)| {
                let numbers = partition.queue.iter().map(|pending| pending.number);
                numbers.map(move |number| (index, number))
            })
            .collect()
    }
}

/// The partitions of entries.
pub(crate) fn partitions_of(places: &[(u16, u64)]) -> BTreeSet<u16> {
    places.iter().map(|(partition, _)| *partition).collect()
}

/// Entries that are being written. The coordinator writes those that are left on drop.
pub(crate) struct Unwritten<'a> {
    pub(crate) inner: &'a Inner,
    pub(crate) places: Vec<(u16, u64)>,
}

impl Drop for Unwritten<'_> {
    fn drop(&mut self) {
        let places = std::mem::take(&mut self.places);
        self.inner.state().own_entries.extend(places);
    }
}

impl Drop for Inner {
    /// Receipts report lost entries to their holders; this logs them.
    fn drop(&mut self) {
        self.stop.cancel();
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let own: BTreeSet<u64> = state
            .own_entries
            .iter()
            .map(|(_, number)| *number)
            .collect();
        let queued = state.partitions.iter().flat_map(|held| &held.queue);
        let lost: Vec<String> = queued
            .filter(|pending| !own.contains(&pending.number))
            .map(|pending| pending.message_id().to_owned())
            .collect();
        report_lost(&lost);
    }
}

/// Logs messages whose strategy or coordinator was dropped before they were written.
fn report_lost(message_ids: &[String]) {
    if !message_ids.is_empty() {
        telemetry::unflushed(message_ids.len());
        tracing::error!(
            count = message_ids.len(),
            ?message_ids,
            "entries were lost before they were written"
        );
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkCoordinator")
            .field("id", &self.id)
            .field("container", &self.container)
            .finish_non_exhaustive()
    }
}
