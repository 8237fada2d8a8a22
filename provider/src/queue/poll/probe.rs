//! One cheap query for all queues: is any item due, and in which physical partitions?
//!
//! Each queue has its own poll, which queries for the work that this process can run. After empty
//! polls, and always with several physical partitions, one probe for all queues precedes the next
//! poll. Its answer serves every queue. An idle provider sends one request per interval and
//! partition of its share; the gateway would not need fewer (`cdb_client`'s merge of queries).

use std::time::Duration;

use cdb_client::partitions::PhysicalPartitionId;
use cdb_model::query::Filter;
use cdb_model::stored::Unreadable;
use cdb_model::{Query, Stored};
use futures::StreamExt as _;
use futures::stream;
use tokio::time::Instant;

use super::due::{Due, DueItems, Found, ProbeState, QUEUES};
use super::polled::Polled as _;
use super::search::answered;
use super::share::{Part, PolledQueue, Share};
use crate::error::Result;
use crate::queue::activities::Activities;
use crate::queue::instances::{Instances, Message};
use crate::queue::limits::Check;
use crate::queue::{CONCURRENCY, Services};
use crate::stored::documents::{
    Durable, FIRST_DUE, LIMITS_PARTITION, Limits, LimitsKey, OrchestratorItem, OutboxIntent,
    dispatch_slot,
};
use crate::timing::{OVERDUE_AFTER, OVERDUE_SEARCH, PROBED_FROM};

/// The most items that a probe finds in a partition. If more are due, it is polled for all queues.
const MAX_FOUND: u32 = 32;

/// Returns the partitions to poll.
///
/// # Errors
/// Fails when the probe fails.
pub(crate) async fn before_poll(
    services: &Services,
    queue: PolledQueue,
    interval: Duration,
) -> Result<Due> {
    let is_busy = interval < PROBED_FROM;
    let due = if is_busy && services.container().physical_partitions().await?.len() == 1 {
        Due::Anywhere
    } else {
        due(services, queue, interval).await?
    };
    look_for_limits(services);
    Ok(due)
}

/// Reads the limits in the background if no probe could tell that they are the newest. A probe of due
/// items may not have room for them.
fn look_for_limits(services: &Services) {
    if services.queues.limits.take_check() == Check::Recent {
        return;
    }
    services.spawn(|services| async move {
        let key = LimitsKey::new(LIMITS_PARTITION);
        match services.container().latest_committed().read(&key).await {
            Ok(Some(limits)) => services.queues.apply_limits(&limits.document),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "cannot look for limits"),
        }
    });
}

/// Returns the partitions to poll for due items of a queue, by a probe younger than `interval`. The
/// probe queries for this queue, and for the other queues that are running low.
///
/// # Errors
/// Fails when no partition answers.
pub(crate) async fn due(
    services: &Services,
    queue: PolledQueue,
    interval: Duration,
) -> Result<Due> {
    let mut state = services.queues.probe.0.lock().await;
    // A little less than the interval, so that a caller at this interval gets a new answer each
    // time.
    let fresh = interval * 9 / 10;
    let last = state.last.as_ref();
    if !last.is_some_and(|(at, due)| at.elapsed() < fresh && due.of(queue).is_some()) {
        state.renew(services, queue).await?;
    }
    Ok(state.take(queue))
}

impl ProbeState {
    /// Probes again.
    async fn renew(&mut self, services: &Services, queue: PolledQueue) -> Result<()> {
        let sent_at = Instant::now();
        let nothing =
            DueItems::nothing(|other| queue == other || services.queues.is_running_low(other));
        let had_items = QUEUES.map(|queue| self.has_items(queue));
        self.last = Some((sent_at, self.probe(services, nothing).await?));
        for (queue, had_items) in QUEUES.into_iter().zip(had_items) {
            // Items that stay due cannot be run here, and do not speed up the polls.
            if !had_items && self.has_items(queue) {
                services.queues.poll_soon(queue);
            }
        }
        Ok(())
    }

    async fn probe(&mut self, services: &Services, nothing: DueItems) -> Result<DueItems> {
        let ranges = services.container().physical_partitions().await?;
        let share = services.queues.shares.widest(ranges).await;
        if !share.has_many_ranges() {
            return probe_single(services, &share, nothing).await;
        }
        let now = Instant::now();
        let is_overdue_round = self.overdue_at.is_none_or(|at| at + OVERDUE_SEARCH <= now);
        if !is_overdue_round {
            return probe_each(services, &share, share.own_ranges(), nothing).await;
        }
        self.overdue_at = Some(now);
        let due = probe_each(services, &share, share.all_ranges(), nothing).await?;
        self.add_overdue(&due);
        Ok(due)
    }
}

/// Probes a single physical partition: one row proves that any item is due, unless the row belongs to
/// an instance that waits for other code.
async fn probe_single(services: &Services, share: &Share, nothing: DueItems) -> Result<DueItems> {
    let sent_at = Instant::now();
    let most = if services.instances().leaves_some() {
        MAX_FOUND
    } else {
        1
    };
    let query = query(services, &share.part_of_all(), &nothing).limit(most);
    let rows = services.container().query(query).row_by_row().all().await?;
    let is_all = rows.len() < most as usize;
    if is_all {
        services.queues.limits.checked(sent_at);
    }
    // Limits are applied; what else is due is unknown then, and polled.
    let classes: Vec<_> = rows
        .into_iter()
        .map(|row| classify(services, row))
        .collect();
    let is_left = |class: &Class| matches!(class, Class::Left);
    Ok(if is_all && classes.iter().all(is_left) {
        nothing
    } else {
        nothing.all(&Due::Anywhere)
    })
}

/// Probes each of these physical partitions, without those that do not answer.
async fn probe_each(
    services: &Services,
    share: &Share,
    ranges: Vec<PhysicalPartitionId>,
    mut due: DueItems,
) -> Result<DueItems> {
    let ranges = services.container().health().available(ranges);
    let nothing = &due.clone();
    let (sent_at, count) = (Instant::now(), ranges.len());
    let probes = stream::iter(ranges).map(async |range| {
        let query = query(services, &share.part(&range), nothing);
        let container = services.container();
        let run = container.query(query).page_size(MAX_FOUND);
        let run = run.in_physical_partition(&range).skip_unavailable();
        let mut pages = run.row_by_row().pages();
        let rows = pages.next_page().await?.unwrap_or_default();
        Ok((range, rows, pages.has_more()))
    });
    let answers: Vec<_> = probes.buffer_unordered(CONCURRENCY).collect().await;
    let (answers, _) = answered(answers)?;
    let is_all = share.all_ranges().len() == count && answers.len() == count;
    if is_all && answers.iter().all(|(_, _, has_more)| !has_more) {
        services.queues.limits.checked(sent_at);
    }
    for (range, rows, has_more) in answers {
        for row in rows {
            match classify(services, row) {
                Class::Found(found) => due.add(&found, share, range.clone()),
                Class::Unknown => due.add_all(&range),
                Class::Left => {}
            }
        }
        if has_more {
            due.add_all(&range);
        }
    }
    Ok(due)
}

/// Returns the query for undelivered intents, and for the due items of the asked queues.
fn query(services: &Services, part: &Part<'_>, asked: &DueItems) -> Query<Durable> {
    let now = services.store.now();
    let undelivered = now - services.delivery.reconciler_age;
    let mut due: Filter<Durable> = OutboxIntent::CREATED_AT.le(undelivered).within();
    if asked.of(PolledQueue::Orchestrations).is_some() {
        due = Instances::due_in(part, FIRST_DUE, now).within() | due;
    }
    if asked.of(PolledQueue::Activities).is_some() {
        due = Activities::due_in(part, FIRST_DUE, now).within() | due;
    }
    let changed_at = services.queues.limits.changed_at();
    let changed: Filter<Durable> = Limits::VISIBLE_AT.gt(changed_at).within();
    Query::across_partitions().filter(changed | due)
}

/// The use of a due document.
enum Class {
    Found(Found),
    /// A message for an instance that waits for other code. A poll would not use it.
    Left,
    Unknown,
}

fn classify(services: &Services, row: Result<Stored<Durable>, Unreadable>) -> Class {
    let mut document = None;
    let Ok(row) = row.map(|row| row.map(|found| document = Some(found))) else {
        return Class::Unknown;
    };
    let overdue = services.store.now() - OVERDUE_AFTER;
    let (queue, slot, is_overdue) = match document {
        Some(Durable::OrchestratorItem(item)) => {
            let (slot, visible_at) = (item.dispatch_slot, item.visible_at);
            if is_left(services, row.map(|()| item)) {
                return Class::Left;
            }
            (PolledQueue::Orchestrations, slot, visible_at <= overdue)
        }
        Some(Durable::WorkerItem(item)) => (
            PolledQueue::Activities,
            item.dispatch_slot,
            item.visible_at <= overdue,
        ),
        Some(Durable::OutboxIntent(intent)) => (
            PolledQueue::Intents,
            dispatch_slot(&intent.instance_id),
            intent.created_at <= overdue - services.delivery.reconciler_age,
        ),
        Some(Durable::Limits(limits)) => {
            services.queues.apply_limits(&limits);
            return Class::Unknown;
        }
        _ => return Class::Unknown,
    };
    Class::Found(Found {
        queue,
        slot,
        is_overdue,
    })
}

fn is_left(services: &Services, item: Stored<OrchestratorItem>) -> bool {
    let instances = services.instances();
    instances.leaves_some() && instances.leaves_stored(&Message::read(item, Instant::now()))
}
