//! Searches for messages that other processes stored: only on demand, and as a hint.
//!
//! A search starts one second before the newest known message, because clocks differ and requests
//! overtake each other. A sweep over all waiting messages finds later ones. Sweeps and stream
//! documents are read from the latest committed state. After a partition was taken only its owner
//! completes messages, so a message that is read as waiting is waiting.

use cdb_client::query::AvailableRows;
use cdb_client::retry::{with_own_deadline, within_deadline};
use cdb_model::stored::Unreadable;
use cdb_model::{Query, Stored, Timestamp};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use tokio::time::Instant;

use crate::error::WorkError;
use crate::memory::inner::Inner;
use crate::memory::poller::{Page, Poller};
use crate::memory::state::{Owned, State};
use crate::memory::unreadable::report;
use crate::streams::documents::{WorkMessage, WorkStream};
use crate::streams::stream::{Progress, StreamKey};
use crate::timing::{FIRST_PAUSE, OVERLAP, SLOW_HANDLER, SWEPT_AHEAD};
use cdb_coordination::search::Rows;

type ReadRow<D> = Result<Stored<D>, Unreadable>;

/// Streams per query.
const STREAMS_ASKED: usize = 100;

/// The result of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Searched {
    /// Whether more messages may be claimed now, or the search continues.
    pub(crate) found_some: bool,
    /// When to search again.
    pub(crate) again_at: Instant,
}

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// More messages may be claimed now.
    News,
    /// A full page without news: the search continues behind it.
    FullPage,
    Nothing,
}

/// The partitions that were owned when a search began, with their fences and the number of streams
/// that they had forgotten. A result counts only under the same fence.
struct OwnedPartitions(BTreeMap<u16, (u64, u64)>);

impl OwnedPartitions {
    fn names(&self, inner: &Inner) -> Vec<String> {
        let indexes = self.0.keys();
        indexes
            .map(|&at| inner.config.partitions.name(at))
            .collect()
    }

    fn still<'a>(&self, state: &'a mut State, index: u16) -> Option<&'a mut Owned> {
        let owned = state.partition(index).owned.as_mut();
        owned.filter(|owned| self.0.get(&index).is_some_and(|then| then.0 == owned.fence))
    }

    /// Whether no stream of a partition was forgotten since. Otherwise a message that was read as
    /// waiting may be the completed message of a forgotten stream.
    fn knows_all(&self, index: u16, owned: &Owned) -> bool {
        let then = self.0.get(&index);
        then.is_some_and(|then| then.1 == owned.streams.forgotten)
    }
}

impl Inner {
    /// Searches, unless another task is searching or it is too early.
    pub(crate) async fn search(&self) -> Searched {
        let now = Instant::now();
        let Ok(mut poller) = self.poller.try_lock() else {
            return Searched {
                found_some: false,
                again_at: now + self.config.longest_pause,
            };
        };
        // The current sweep ends first. Otherwise messages at its end might never be found.
        if poller.sweeping.is_none() && self.wants_sweep(&mut poller) {
            poller.start_sweep();
            poller.next_search = None;
        }
        if let Some(again_at) = poller.next_search.filter(|next| *next > now) {
            return Searched {
                found_some: false,
                again_at,
            };
        }
        // All claims share the search and the pause after it, so it has a deadline of its own. With
        // that of a claim that is about to end it would fail for all.
        let limit = self.container.deadline();
        let search = within_deadline(limit, self.search_once(&mut poller));
        let found = with_own_deadline(search).await;
        let found = found.unwrap_or_else(|error| {
            tracing::warn!(%error, "the search for messages failed");
            Found::Nothing
        });
        if found == Found::News {
            poller.pause = FIRST_PAUSE;
            self.news.notify_waiters();
        }
        let found_some = found != Found::Nothing;
        let mut again_at = Instant::now();
        if !found_some {
            let longest = self.config.longest_pause;
            // A search that has waited for a partition has paused for the others.
            let begun = if poller.missed.is_empty() {
                again_at
            } else {
                now
            };
            again_at = begun + poller.pause.min(longest);
            poller.pause = poller.pause.saturating_mul(2).min(longest);
        }
        poller.next_search = Some(again_at);
        Searched {
            found_some,
            again_at,
        }
    }

    /// Whether messages wait that only a sweep finds.
    fn wants_sweep(&self, poller: &mut Poller) -> bool {
        let missed = poller.missed.len();
        poller.missed.retain(|index| self.is_silent(*index));
        if poller.missed.len() < missed {
            self.sweep_wanted.store(true, Ordering::Release);
        }
        for (_, owned) in self.state().owned() {
            if owned.streams.take_left_out().is_some() {
                self.sweep_wanted.store(true, Ordering::Release);
            }
        }
        self.sweep_wanted.swap(false, Ordering::AcqRel)
    }

    async fn search_once(&self, poller: &mut Poller) -> Result<Found, WorkError> {
        let searched = {
            let mut state = self.state();
            let service_now = self.container.now();
            if state.claimable_in_memory(service_now) >= self.config.most_in_memory {
                // Messages that cannot be claimed must not keep others out.
                let soon = service_now + self.config.sweep * SWEPT_AHEAD;
                let slow = Instant::now().checked_sub(SLOW_HANDLER);
                for (_, owned) in state.owned() {
                    owned.streams.shed(soon, slow);
                }
            }
            if state.claimable_in_memory(service_now) >= self.config.most_in_memory {
                return Ok(Found::Nothing);
            }
            let owned = state.owned().filter(|(_, owned)| !owned.draining);
            let owned = owned.map(|(at, owned)| (at, (owned.fence, owned.streams.forgotten)));
            OwnedPartitions(owned.collect())
        };
        if searched.0.is_empty() {
            return Ok(Found::Nothing);
        }
        let now = Instant::now();
        if poller.sweeping.is_none() && poller.next_sweep.is_none_or(|at| at <= now) {
            poller.start_sweep();
        }
        let from = poller.sweeping.unwrap_or(poller.newest - OVERLAP);
        let was_sweep = poller.sweeping.is_some();
        let service_now = self.container.now();
        // A sweep finds messages before they are due.
        let ahead = if was_sweep {
            self.config.sweep * SWEPT_AHEAD
        } else {
            OVERLAP
        };
        let AvailableRows {
            rows, is_complete, ..
        } = self
            .read_waiting(&searched, from, service_now + ahead, poller)
            .await?;
        let waiting = Rows::apart(rows);
        let page = if is_complete || self.note_missed(&searched, poller) {
            poller.advance(from, service_now, &waiting)
        } else {
            // The next search reads this page again.
            Page::Last
        };
        if page == Page::LastOfSweep {
            poller.next_sweep = Some(now + self.config.sweep);
        }
        let before = self.state().claimable_in_memory(service_now);
        self.mark_unreadable_dead(&waiting.unreadable).await;
        self.learn(&searched, waiting.rows, was_sweep);
        let progress = self.resolve_stuck(&searched, page).await?;
        let has_more = self.state().claimable_in_memory(service_now) > before;
        Ok(match page {
            _ if has_more || progress == Progress::News => Found::News,
            Page::Full => Found::FullPage,
            Page::Last | Page::LastOfSweep => Found::Nothing,
        })
    }

    async fn read_waiting(
        &self,
        searched: &OwnedPartitions,
        from: Timestamp,
        to: Timestamp,
        poller: &Poller,
    ) -> Result<AvailableRows<ReadRow<WorkMessage>>, WorkError> {
        let times = WorkMessage::WAITING_SINCE.between(from, to);
        let mut query = Query::<WorkMessage>::across_partitions().filter(times);
        if searched.0.len() < usize::from(self.config.partitions.count()) {
            query = query.filter(WorkMessage::PARTITION.is_in(searched.names(self)));
        }
        let query = query.order_by(WorkMessage::BY_WAITING).limit(poller.page);
        let container = if poller.sweeping.is_some() {
            self.container.latest_committed()
        } else {
            self.container.clone()
        };
        Ok(container.query(query).row_by_row().all_available().await?)
    }

    /// Notes the owned partitions that do not answer: a search has left out their messages, and a
    /// sweep finds them as soon as they answer. Returns `false` if all physical partitions answer:
    /// then it is unknown which one the search has left out.
    fn note_missed(&self, searched: &OwnedPartitions, poller: &mut Poller) -> bool {
        let silent = searched
            .0
            .keys()
            .copied()
            .filter(|index| self.is_silent(*index));
        poller.missed.extend(silent);
        !self.container.health().all_answer()
    }

    /// Keeps the messages of partitions that were owned throughout.
    fn learn(&self, searched: &OwnedPartitions, rows: Vec<Stored<WorkMessage>>, is_latest: bool) {
        let mut state = self.state();
        for row in rows {
            let message = row.document;
            if !state.has_room_for(message.lane, self.config.most_in_memory) {
                continue;
            }
            let index = self.config.partitions.index_of(&message.partition);
            if let Some(owned) = index.and_then(|index| searched.still(&mut state, index)) {
                // Message 1 of a stream waits, so no message of the stream is completed.
                let is_sure = is_latest && searched.knows_all(index.unwrap_or_default(), owned);
                let starts_here = is_sure && message.sequence == 1;
                owned.streams.learn(message, starts_here);
            }
        }
    }

    /// Reads the progress of stuck streams: after a sweep of all, otherwise of those whose progress
    /// is unknown.
    async fn resolve_stuck(
        &self,
        searched: &OwnedPartitions,
        page: Page,
    ) -> Result<Progress, WorkError> {
        let mut stuck = Vec::new();
        for (index, owned) in self.state().owned() {
            let keys = match page {
                Page::LastOfSweep => owned.streams.stuck(),
                Page::Full | Page::Last => owned.streams.unknown(),
            };
            stuck.extend(keys.into_iter().map(|key| (index, key)));
        }
        if stuck.is_empty() {
            return Ok(Progress::Known);
        }
        let keys: Vec<StreamKey> = stuck.iter().map(|(_, key)| key.clone()).collect();
        let (streams, is_complete) = self.read_streams(&searched.names(self), &keys).await?;
        let mut state = self.state();
        let mut progress = Progress::Known;
        for row in streams.rows {
            let stream = row.document;
            let index = self.config.partitions.index_of(&stream.partition);
            if let Some(owned) = index.and_then(|index| searched.still(&mut state, index)) {
                let key = StreamKey::new(stream.lane, &stream.stream);
                progress = progress.max(owned.streams.learn_done(&key, stream.done));
            }
        }
        // The stream of a partition that has not answered may have a document.
        for (index, key) in stuck.into_iter().filter(|_| is_complete) {
            if let Some(owned) = searched.still(&mut state, index) {
                owned.streams.learn_missing(&key);
            }
        }
        Ok(progress)
    }

    /// Reads the documents of streams from the latest committed state, and whether all partitions
    /// have answered. Logs unreadable documents.
    pub(crate) async fn read_streams(
        &self,
        partitions: &[String],
        keys: &[StreamKey],
    ) -> Result<(Rows<Stored<WorkStream>>, bool), WorkError> {
        let latest = self.container.latest_committed();
        let (mut found, mut is_complete) = (Vec::new(), true);
        for keys in keys.chunks(STREAMS_ASKED) {
            let asked = match partitions {
                [one] => Query::<WorkStream>::in_partition(one.as_str()),
                many => Query::<WorkStream>::across_partitions()
                    .filter(WorkStream::PARTITION.is_in(many)),
            };
            let names = keys.iter().map(StreamKey::stream);
            let query = asked.filter(WorkStream::STREAM.is_in(names));
            let read = latest.query(query).row_by_row().all_available().await?;
            found.extend(read.rows);
            is_complete &= read.is_complete;
        }
        let found = Rows::apart(found);
        found.unreadable.iter().for_each(report);
        Ok((found, is_complete))
    }
}
