//! One cheap query for all queues: is any item due, and in which physical partitions?
//!
//! Each queue has its own poll, which queries for the work that this process can run. After empty
//! polls, and always with several physical partitions, one probe for all queues precedes the next
//! poll. Its answer serves every queue. The gateway can serve it, so an idle provider sends one
//! request per interval, whatever the number of partitions.

use std::time::Duration;

use cdb_client::RangeId;
use cdb_model::{Filter, PartitionKey, Query, Stored, Unreadable};
use futures::StreamExt as _;
use futures::stream;
use tokio::time::Instant;

use super::due::{Due, DueItems, Found, Item, ProbeState};
use super::polled::Polled as _;
use super::share::{OVERDUE_AFTER, Part, PolledQueue, Share};
use crate::activities::Activities;
use crate::documents::{Durable, FIRST_DUE, OutboxIntent};
use crate::error::Result;
use crate::instances::Instances;
use crate::services::Services;

/// The poll interval from which on the probe precedes each poll of a single partition.
const IDLE_INTERVAL: Duration = Duration::from_millis(200);

/// The most items that a probe finds. If more are due, all partitions are polled.
const MAX_FOUND: u32 = 32;

/// The deadline of a probe by the gateway, which waits for its slowest partition.
const GATEWAY_DEADLINE: Duration = Duration::from_secs(1);

/// The time without probes by the gateway after one has failed. Each partition is then probed
/// separately.
const GATEWAY_BACKOFF: Duration = Duration::from_secs(10);

/// The time between two probes for overdue items of other runtimes' partitions.
const OVERDUE_INTERVAL: Duration = Duration::from_secs(8);

/// The number of physical partitions that are probed at a time.
const CONCURRENCY: usize = 16;

/// Returns the partitions to poll.
///
/// # Errors
/// Fails when the probe fails.
pub(crate) async fn before_poll(
    services: &Services,
    queue: PolledQueue,
    interval: Duration,
) -> Result<Due> {
    if interval < IDLE_INTERVAL && services.container().ranges().await?.len() == 1 {
        return Ok(Due::Anywhere);
    }
    Ok(due_items(services, interval).await?.of(queue).clone())
}

/// Returns the due items, by a probe younger than `interval`.
///
/// # Errors
/// Fails when no partition answers.
pub(crate) async fn due_items(services: &Services, interval: Duration) -> Result<DueItems> {
    let mut state = services.queues.probe.0.lock().await;
    // A little less than the interval, so that a caller at this interval gets a new answer each
    // time.
    let fresh = interval * 9 / 10;
    if let Some((at, due)) = &state.last
        && at.elapsed() < fresh
    {
        return Ok(due.clone());
    }
    let sent_at = Instant::now();
    let due = state.probe(services).await?;
    let before = state.last.replace((sent_at, due.clone()));
    let before = before.map_or_else(DueItems::nothing, |(_, due)| due);
    drop(state);
    // Items that stay due cannot be run here, and do not speed up the polls.
    if before.orchestrations.is_nothing() && !due.orchestrations.is_nothing() {
        services.instances().local().poll_soon();
    }
    if before.activities.is_nothing() && !due.activities.is_nothing() {
        services.activities().local().poll_soon();
    }
    Ok(due)
}

impl ProbeState {
    async fn probe(&mut self, services: &Services) -> Result<DueItems> {
        let ranges = services.container().ranges().await?;
        let share = services.queues.shares.widest(ranges).await;
        if !share.has_many_ranges() {
            return probe_single(services, &share).await;
        }
        let now = Instant::now();
        let is_overdue_round = !share.is_wide()
            && self
                .overdue_at
                .is_none_or(|at| at + OVERDUE_INTERVAL <= now);
        let by_gateway = share.is_wide() || is_overdue_round;
        if !by_gateway || self.gateway_retry_at.is_some_and(|at| at > now) {
            return probe_each(services, &share).await;
        }
        let part = if is_overdue_round {
            self.overdue_at = Some(now);
            Part::Overdue
        } else {
            share.part_of_all()
        };
        let probe = probe_by_gateway(services, &share, &part);
        match tokio::time::timeout(GATEWAY_DEADLINE, probe).await {
            Ok(Ok(due)) => return Ok(due),
            Ok(Err(error)) => tracing::debug!(%error, "the gateway cannot probe all partitions"),
            Err(_) => tracing::debug!("the gateway did not probe all partitions in time"),
        }
        self.gateway_retry_at = Some(Instant::now() + GATEWAY_BACKOFF);
        probe_each(services, &share).await
    }
}

/// Probes a single physical partition: one row proves that any item is due.
async fn probe_single(services: &Services, share: &Share) -> Result<DueItems> {
    let query = query(services, &share.part_of_all()).top(1);
    let rows = services.container().query(query).row_by_row().all().await?;
    Ok(if rows.is_empty() {
        DueItems::nothing()
    } else {
        DueItems::anywhere()
    })
}

/// Probes all physical partitions in one request.
async fn probe_by_gateway(services: &Services, share: &Share, part: &Part<'_>) -> Result<DueItems> {
    let container = services.container();
    let mut pages = container
        .query(query(services, part))
        .page_size(MAX_FOUND)
        .by_gateway()
        .row_by_row()
        .pages();
    let rows = pages.next_page().await?.unwrap_or_default();
    if pages.has_more() {
        return Ok(DueItems::anywhere());
    }
    let mut due = DueItems::nothing();
    for row in rows {
        let (found, key) = classify(services, row);
        let range = match key {
            Some(key) => container.range_of(&key).await?,
            None => None,
        };
        let Some(range) = range else {
            return Ok(DueItems::anywhere());
        };
        due.add(&found, share, range);
    }
    Ok(due)
}

/// Probes the physical partitions of the share one by one.
async fn probe_each(services: &Services, share: &Share) -> Result<DueItems> {
    let ranges = &services.queues.ranges;
    let own = ranges.available(share.own_ranges());
    let probes = stream::iter(own).map(|range| probe_range(services, share, range));
    let answers: Vec<_> = probes.buffer_unordered(CONCURRENCY).collect().await;
    let (mut due, mut failed) = (DueItems::nothing(), None);
    let mut has_answer = answers.is_empty();
    for answer in answers {
        match answer {
            Ok((range, rows, has_more)) => {
                has_answer = true;
                for row in rows {
                    due.add(&classify(services, row).0, share, range.clone());
                }
                if has_more {
                    due.add_all(range);
                }
            }
            Err(error) => failed = Some(error),
        }
    }
    failed.filter(|_| !has_answer).map_or(Ok(due), Err)
}

/// Returns the first due items of a physical partition, and whether it has more.
async fn probe_range(
    services: &Services,
    share: &Share,
    range: RangeId,
) -> Result<(RangeId, Vec<Result<Stored<Durable>, Unreadable>>, bool)> {
    let query = query(services, &share.part(&range));
    let run = services.container().query(query).page_size(MAX_FOUND);
    let mut pages = run.in_range(&range).row_by_row().pages();
    let answer = services.queues.ranges.answer(&range, pages.next_page());
    let rows = answer.await?.unwrap_or_default();
    Ok((range, rows, pages.has_more()))
}

/// Returns the query for due items and undelivered intents.
fn query(services: &Services, part: &Part<'_>) -> Query<Durable> {
    let now = services.store.now();
    let undelivered = now - services.delivery.reconciler_age;
    let intents: Filter<Durable> = OutboxIntent::CREATED_AT.le(undelivered).within();
    let orchestrations = Instances::due_in(part, FIRST_DUE, now).within();
    let activities = Activities::due_in(part, FIRST_DUE, now).within();
    Query::across_partitions().filter(orchestrations | activities | intents)
}

/// Classifies a due document. Returns its partition key, if it has a valid one.
fn classify(
    services: &Services,
    row: Result<Stored<Durable>, Unreadable>,
) -> (Found, Option<PartitionKey>) {
    let overdue = services.store.now() - OVERDUE_AFTER;
    let (item, instance_id, is_overdue) = match row.map(|row| row.document) {
        Ok(Durable::OrchestratorItem(item)) => (
            Item::Orchestration(item.dispatch_slot),
            item.instance_id,
            item.visible_at <= overdue,
        ),
        Ok(Durable::WorkerItem(item)) => (
            Item::Activity(item.dispatch_slot),
            item.instance_id,
            item.visible_at <= overdue,
        ),
        Ok(Durable::OutboxIntent(intent)) => (Item::Intent, intent.instance_id, false),
        Ok(_) => return (Found::UNKNOWN, None),
        Err(found) => {
            return (
                Found::UNKNOWN,
                found.location.map(|location| location.partition_key),
            );
        }
    };
    (Found { item, is_overdue }, Some(instance_id.into()))
}
