//! The run of a poll: the partitions to query, their answers, and the found items.

use cdb_client::partitions::PhysicalPartitionId;
use cdb_coordination::search::{Runs, Windows};
use cdb_model::Timestamp;
use futures::StreamExt as _;
use futures::stream;

use super::due::Due;
use super::polled::{Poll, Polled, Row};
use super::probe;
use super::search::{DueSearch, answered};
use crate::error::{Error, Result};
use crate::queue::local_queue::PollNumber;
use crate::queue::{CONCURRENCY, Services};
use crate::stored::documents::{FIRST_DUE, Partial as _};

/// The items per physical partition beyond its part of a poll, because items are not distributed
/// evenly.
const EXTRA_PER_RANGE: u32 = 1;

/// How often a poll starts over because partitions split during it.
const MAX_RESTARTS: u32 = 2;

/// Starts a poll that serves all dispatchers of this process.
pub(crate) fn start<Q: Polled>(services: &Services, number: PollNumber) {
    if services.store.tasks.is_closing() {
        return;
    }
    services.spawn(move |services| async move {
        let queue = Q::queue(&services);
        let polling = queue.polling();
        let interval = queue.with(|queue, _| queue.poll_interval());
        let polled = async {
            let due = probe::before_poll(&services, Q::QUEUE, interval).await?;
            match Q::wanted(queue) {
                // Items that cannot run do not speed up the polls.
                Some(wanted) => {
                    let within = queue.begin_poll();
                    let since = within.map(|within| services.store.now() - within);
                    let found = poll_since::<Q>(&services, number, &wanted, &due, since).await;
                    found.map(|found| found.can_run > 0)
                }
                None => Ok(false),
            }
        };
        match polled.await {
            Ok(found) => polling.finish(found),
            Err(error) => tracing::warn!(%error, queue = ?Q::QUEUE, "cannot poll"),
        }
    });
}

/// The items that a poll has found.
#[derive(Debug)]
pub(crate) struct Found<K> {
    pub(crate) keys: Vec<K>,
    /// The number of rows with items that can run.
    can_run: usize,
}

/// Queries the physical partitions for their first due items. Returns the found items.
///
/// # Errors
/// Fails when no partition answers.
pub(crate) async fn poll<Q: Polled>(
    services: &Services,
    number: PollNumber,
    wanted: &Q::Wanted,
    due: &Due,
) -> Result<Found<Q::Key>> {
    poll_since::<Q>(services, number, wanted, due, None).await
}

/// Polls for the items that have become due `since` a time, or for all.
async fn poll_since<Q: Polled>(
    services: &Services,
    number: PollNumber,
    wanted: &Q::Wanted,
    due: &Due,
    since: Option<Timestamp>,
) -> Result<Found<Q::Key>> {
    let mut restarts = 0;
    loop {
        let ranges = services.container().physical_partitions().await?;
        let share = services.queues.shares.of_poll(Q::QUEUE, ranges).await;
        let wanted_ranges = due.ranges(&share);
        let count = wanted_ranges.len();
        let ranges = services.container().health().available(wanted_ranges);
        let poll = Poll::<Q> {
            services,
            number,
            wanted,
            enough: enough_of_each(Q::queue(services).polls.enough, ranges.len()),
            share,
            since,
        };
        let is_complete = ranges.len() == count && since.is_none();
        let answers = stream::iter(ranges).map(|range| poll.range(range));
        let answers: Vec<_> = answers.buffer_unordered(CONCURRENCY).collect().await;
        let has_split = |answer: &Result<_>| matches!(answer, Err(Error::Request(error)) if error.is_partition_split());
        if answers.iter().any(has_split) && restarts < MAX_RESTARTS {
            restarts += 1;
            continue;
        }
        return poll.finish(answers, is_complete);
    }
}

/// Returns the items that are enough in each physical partition.
fn enough_of_each(enough: u32, ranges: usize) -> u32 {
    match u32::try_from(ranges) {
        Ok(0 | 1) => enough,
        Ok(ranges) => enough.div_ceil(ranges) + EXTRA_PER_RANGE,
        Err(_) => EXTRA_PER_RANGE,
    }
}

impl<Q: Polled> Poll<'_, Q> {
    /// Polls one physical partition. The dispatchers can take its items before the other partitions
    /// answer.
    async fn range(&self, range: PhysicalPartitionId) -> Result<Found<Q::Key>> {
        let part = self.share.part(&range);
        // Overdue items are older. The next poll may not look for them.
        let since = self.since.filter(|_| !part.has_overdue());
        let whole = &Q::queue(self.services).polls.windows;
        let new = Windows::default();
        let search = DueSearch {
            container: self.services.container(),
            range: &range,
            // A search for new items does not move the window of the others.
            windows: since.map_or(whole, |_| &new),
            enough: self.enough,
        };
        let query = |from: Option<Timestamp>| {
            let from = from.or(since).unwrap_or(FIRST_DUE);
            let now = self.services.store.now();
            Q::query(self.wanted, Q::due_in(&part, from, now))
        };
        let mut keys = Vec::new();
        let note = |row: Row<Q>, sent_at| {
            let due = Q::due_of(&row);
            let readable = row.or_else(|found| {
                self.services.store.corrupt_documents.report(&found);
                Q::Item::partial_stored(&found).ok_or(())
            });
            // Without an instance id an item stays where it is, and the poll skips it.
            let Ok(item) = readable else {
                return (due, Runs::NotNow);
            };
            let noted = Q::note(self, item, sent_at);
            keys.extend(noted.key);
            (due, noted.runs)
        };
        let can_run = search.run(query, note).await?;
        Q::sort(self, &range, &mut keys);
        keys.dedup();
        let queue = Q::queue(self.services);
        queue.with(|queue, now| match since {
            None => queue.finish_poll(self.number, &keys, |_| false, now),
            // The poll does not look for the older items that others have found.
            Some(_) => queue.found(&keys, now),
        });
        Ok(Found { keys, can_run })
    }

    /// Returns the found items. A complete poll forgets items that it has not found.
    fn finish(
        &self,
        answers: Vec<Result<Found<Q::Key>>>,
        is_complete: bool,
    ) -> Result<Found<Q::Key>> {
        let (found, all_answered) = answered(answers)?;
        if is_complete && all_answered {
            let covers = |known: &Q::Known| Q::covers(self.wanted, known);
            let queue = Q::queue(self.services);
            queue.with(|queue, now| queue.finish_poll(self.number, &[], covers, now));
        }
        let can_run = found.iter().map(|found| found.can_run).sum();
        let keys = found.into_iter().flat_map(|found| found.keys).collect();
        Ok(Found { keys, can_run })
    }
}
