//! The run of a poll: the partitions to query, their answers, and the found items.

use cdb_client::RangeId;
use futures::StreamExt as _;
use futures::stream;
use tokio::time::Instant;

use super::due::Due;
use super::polled::{Poll, Polled};
use super::probe;
use super::ranges::{answered, is_split};
use super::window::PollResult;
use crate::error::Result;
use crate::local_queue::PollNumber;
use crate::services::Services;

/// The number of physical partitions that a poll queries at a time.
const CONCURRENCY: usize = 16;

/// The rows per physical partition beyond its part of a poll, because items are not distributed
/// evenly.
const SLACK: u32 = 2;

/// How often a poll starts over because partitions split during it.
const MAX_RESTARTS: u32 = 2;

/// Starts a poll that serves all dispatchers of this process.
pub(crate) fn start<Q: Polled>(services: &Services, number: PollNumber) {
    if services.tasks.is_closing() {
        return;
    }
    services.spawn(move |services| async move {
        let queue = Q::queue(&services);
        let polling = queue.polling();
        let interval = queue.with(|queue, _| queue.poll_interval());
        let polled = async {
            let due = probe::before_poll(&services, Q::QUEUE, interval).await?;
            match Q::wanted(queue) {
                Some(wanted) => poll::<Q>(&services, number, &wanted, &due).await,
                None => Ok(Vec::new()),
            }
        };
        match polled.await {
            Ok(found) => polling.finish(!found.is_empty()),
            Err(error) => tracing::warn!(%error, queue = ?Q::QUEUE, "cannot poll"),
        }
    });
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
) -> Result<Vec<Q::Key>> {
    let mut restarts = 0;
    loop {
        let ranges = services.container().ranges().await?;
        let queues = &services.queues;
        let share = queues.shares.of_poll(Q::QUEUE, ranges).await;
        let wanted_ranges = due.ranges(&share);
        let count = wanted_ranges.len();
        let ranges = queues.ranges.available(wanted_ranges);
        let poll = Poll::<Q> {
            services,
            number,
            wanted,
            ranges: &ranges,
            rows: rows_of_each(queues.polls(Q::QUEUE).base_rows(), ranges.len()),
            share,
        };
        let is_complete = due.is_complete() && ranges.len() == count;
        let answers = stream::iter(ranges.clone()).map(|range| poll.range(range));
        let answers: Vec<_> = answers.buffer_unordered(CONCURRENCY).collect().await;
        let has_split = |answer: &Result<_>| matches!(answer, Err(error) if is_split(error));
        if answers.iter().any(has_split) && restarts < MAX_RESTARTS {
            restarts += 1;
            continue;
        }
        return poll.finish(answers, is_complete);
    }
}

/// Returns the rows per physical partition.
fn rows_of_each(rows: u32, ranges: usize) -> u32 {
    match u32::try_from(ranges) {
        Ok(0 | 1) => rows,
        Ok(ranges) => rows.div_ceil(ranges) + SLACK,
        Err(_) => SLACK,
    }
}

impl<Q: Polled> Poll<'_, Q> {
    /// Polls one physical partition. The dispatchers can take its items before the other partitions
    /// answer.
    async fn range(&self, range: RangeId) -> Result<Vec<Q::Key>> {
        let queues = &self.services.queues;
        let window = queues.polls(Q::QUEUE);
        let request = window.next_request(&range, self.rows);
        let now = self.services.store.now();
        let due = Q::due_in(&self.share.part(&range), request.from, now);
        let query = Q::query(self.wanted, due).limit(request.rows);
        let sent_at = Instant::now();
        let read = self.services.container().query(query).in_range(&range);
        let read = read.row_by_row().all();
        let rows = queues.ranges.answer(&range, self.ranges, read).await?;
        let mut result = PollResult::of(&rows, Q::VISIBLE_AT, Q::visible_at);
        let mut found = Vec::with_capacity(rows.len());
        for row in rows {
            let noted = Q::note(self, row, sent_at);
            result.unusable += usize::from(!noted.is_usable);
            found.extend(noted.key);
        }
        window.note(&range, request, result);
        Q::sort(self, &range, &mut found);
        found.dedup();
        let queue = Q::queue(self.services);
        queue.with(|queue, now| queue.finish_poll(self.number, &found, |_| false, now));
        Ok(found)
    }

    /// Returns the found items. A complete poll forgets items that it has not found.
    fn finish(&self, answers: Vec<Result<Vec<Q::Key>>>, is_complete: bool) -> Result<Vec<Q::Key>> {
        let (found, all_answered) = answered(answers)?;
        if is_complete && all_answered {
            let covers = |known: &Q::Known| Q::covers(self.wanted, known);
            let queue = Q::queue(self.services);
            queue.with(|queue, now| queue.finish_poll(self.number, &[], covers, now));
        }
        Ok(found.concat())
    }
}
