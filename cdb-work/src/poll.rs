//! Searches for messages that other processes stored: only on demand, and as a hint.
//!
//! A search starts one second before the newest known message, because clocks differ and requests
//! overtake each other. A sweep over all waiting messages finds later ones. Sweeps and stream
//! documents are read from the latest committed state. After a partition was taken only its owner
//! completes messages, so a message that is read as waiting is waiting.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cdb_model::{Query, Stored, Timestamp};
use tokio::time::Instant;

use super::documents::{WorkMessage, WorkStream};
use super::error::WorkError;
use super::inner::Inner;
use super::poller::{FIRST_PAUSE, Poller};
use super::state::{Owned, State};
use super::stream::StreamKey;
use super::unreadable::report;
use cdb_coordination::Rows;

/// Streams per query.
const STREAMS_ASKED: usize = 100;

/// How far a search goes back before the newest known message.
const OVERLAP: Duration = Duration::from_secs(1);

/// The result of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Searched {
    /// Whether more messages may be claimed now.
    pub(super) found_some: bool,
    /// When to search again.
    pub(super) again_at: Instant,
}

/// The partitions that were held when a search began, with their fences. A result counts only under
/// the same fence.
struct Held(BTreeMap<u16, u64>);

impl Held {
    fn names(&self, inner: &Inner) -> Vec<String> {
        let indexes = self.0.keys();
        indexes
            .map(|&at| inner.config.partitions.name(at))
            .collect()
    }

    fn still<'a>(&self, state: &'a mut State, index: u16) -> Option<&'a mut Owned> {
        let owned = state.partition(index).owned.as_mut();
        owned.filter(|owned| self.0.get(&index) == Some(&owned.fence))
    }
}

impl Inner {
    /// Searches, unless another task is searching or it is too early.
    pub(super) async fn search(&self) -> Searched {
        let now = Instant::now();
        let Ok(mut poller) = self.poller.try_lock() else {
            return Searched {
                found_some: false,
                again_at: now + self.config.longest_pause,
            };
        };
        if self.sweep_wanted.swap(false, Ordering::AcqRel) {
            poller.sweeping = Some(Timestamp::default());
            poller.next_search = None;
        }
        if let Some(again_at) = poller.next_search.filter(|next| *next > now) {
            return Searched {
                found_some: false,
                again_at,
            };
        }
        let found_some = match self.search_once(&mut poller).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, "the search for messages failed");
                false
            }
        };
        let again_at = if found_some {
            poller.pause = FIRST_PAUSE;
            Instant::now()
        } else {
            let pause = poller.pause.min(self.config.longest_pause);
            poller.pause = poller
                .pause
                .saturating_mul(2)
                .min(self.config.longest_pause);
            Instant::now() + pause
        };
        poller.next_search = Some(again_at);
        if found_some {
            self.news.notify_waiters();
        }
        Searched {
            found_some,
            again_at,
        }
    }

    async fn search_once(&self, poller: &mut Poller) -> Result<bool, WorkError> {
        let held = {
            let mut state = self.state();
            if state.held_to_claim() >= self.config.most_held {
                // Messages that cannot be claimed must not keep others out.
                let soon = self.container.now() + self.config.sweep * 2;
                for (_, owned) in state.owned() {
                    owned.streams.shed(soon);
                }
            }
            if state.held_to_claim() >= self.config.most_held {
                return Ok(false);
            }
            let held = state.owned().filter(|(_, owned)| !owned.draining);
            Held(held.map(|(at, owned)| (at, owned.fence)).collect())
        };
        if held.0.is_empty() {
            return Ok(false);
        }
        let now = Instant::now();
        if poller.sweeping.is_none() && poller.next_sweep.is_none_or(|at| at <= now) {
            poller.sweeping = Some(Timestamp::default());
        }
        let from = poller.sweeping.unwrap_or(poller.newest - OVERLAP);
        let was_sweep = poller.sweeping.is_some();
        let service_now = self.container.now();
        // A sweep finds messages before they are due.
        let ahead = if was_sweep {
            self.config.sweep.saturating_mul(2)
        } else {
            OVERLAP
        };
        let times = (from, service_now + ahead);
        let waiting = self.read_waiting(&held, times, poller).await?;
        let is_last = poller.advance(from, service_now, &waiting);
        if was_sweep && is_last {
            poller.next_sweep = Some(now + self.config.sweep);
        }
        let before = self.state().held_to_claim();
        self.set_unreadable_aside(&waiting.unreadable).await;
        self.learn(&held, waiting.rows, was_sweep);
        let resolved = if was_sweep || self.has_unknown_streams() {
            self.resolve_stuck(&held).await?
        } else {
            false
        };
        let mut state = self.state();
        let freed = state
            .owned()
            .filter_map(|(_, owned)| owned.streams.takes_sweep().then_some(()));
        if freed.count() > 0 {
            self.sweep_wanted.store(true, Ordering::Release);
        }
        Ok(!is_last || resolved || state.held_to_claim() > before)
    }

    async fn read_waiting(
        &self,
        held: &Held,
        (from, to): (Timestamp, Timestamp),
        poller: &Poller,
    ) -> Result<Rows<Stored<WorkMessage>>, WorkError> {
        let times = WorkMessage::WAITING_SINCE.between(from, to);
        let mut query = Query::<WorkMessage>::across_partitions().filter(times);
        if held.0.len() < usize::from(self.config.partitions.count()) {
            query = query.filter(WorkMessage::PARTITION.is_in(held.names(self)));
        }
        let query = query.order_by(WorkMessage::BY_WAITING).limit(poller.page);
        let found = if poller.sweeping.is_some() {
            let latest = self.container.latest_committed();
            latest.query(query).row_by_row().all().await?
        } else {
            self.container.query(query).row_by_row().all().await?
        };
        Ok(Rows::apart(found))
    }

    /// Keeps the messages of partitions that were held throughout.
    fn learn(&self, held: &Held, rows: Vec<Stored<WorkMessage>>, is_latest: bool) {
        let mut state = self.state();
        for row in rows {
            let message = row.document;
            if !state.may_hold(message.lane, self.config.most_held) {
                continue;
            }
            let index = self.config.partitions.index_of(&message.partition);
            if let Some(owned) = index.and_then(|index| held.still(&mut state, index)) {
                // Message 1 of a stream waits, so no message of the stream is completed.
                let starts_here = is_latest && message.sequence == 1;
                owned.streams.learn(message, starts_here);
            }
        }
    }

    fn has_unknown_streams(&self) -> bool {
        let mut state = self.state();
        state.owned().any(|(_, owned)| owned.streams.has_unknown())
    }

    /// Reads the progress of stuck streams. Returns `true` if one of them can continue.
    async fn resolve_stuck(&self, held: &Held) -> Result<bool, WorkError> {
        let mut stuck = Vec::new();
        for (_, owned) in self.state().owned() {
            stuck.extend(owned.streams.stuck());
        }
        if stuck.is_empty() {
            return Ok(false);
        }
        let streams = self.read_streams(&held.names(self), &stuck).await?;
        let mut state = self.state();
        let mut moved = false;
        for row in streams.rows {
            let stream = row.document;
            let index = self.config.partitions.index_of(&stream.partition);
            if let Some(owned) = index.and_then(|index| held.still(&mut state, index)) {
                let key = StreamKey::new(stream.lane, &stream.stream);
                moved |= owned.streams.learn_done(&key, stream.done);
            }
        }
        Ok(moved)
    }

    /// Reads the documents of streams from the latest committed state. Logs unreadable documents.
    pub(super) async fn read_streams(
        &self,
        partitions: &[String],
        keys: &[StreamKey],
    ) -> Result<Rows<Stored<WorkStream>>, WorkError> {
        let latest = self.container.latest_committed();
        let mut found = Vec::new();
        for keys in keys.chunks(STREAMS_ASKED) {
            let asked = match partitions {
                [one] => Query::<WorkStream>::in_partition(one.as_str()),
                many => Query::<WorkStream>::across_partitions()
                    .filter(WorkStream::PARTITION.is_in(many)),
            };
            let names = keys.iter().map(StreamKey::stream);
            let query = asked.filter(WorkStream::STREAM.is_in(names));
            found.extend(latest.query(query).row_by_row().all().await?);
        }
        let found = Rows::apart(found);
        found.unreadable.iter().for_each(report);
        Ok(found)
    }
}
