//! Work that its caller leaves when its physical partition does not answer, throttles the work, or does not
//! answer a write, while other partitions answer.

use std::time::Duration;

use cdb_model::PartitionKey;
use http::Method;
use tokio::time::{Instant, sleep_until};

use crate::container::ContainerContext;
use crate::error::{Error, ErrorKind, RequestKind, Result};
use crate::partitions::{Class, PhysicalPartitionId, leave_write, refused_since, watch_stall};
use crate::protocol::{Accepted, Request};
use crate::throughput::Admission;

/// The interval at which slow work asks whether its partition answers.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);

/// The time for which work may be refused: longer than a second, so that a request that is asked to wait
/// for a second is sent twice.
pub(super) const REFUSED: Duration = Duration::from_millis(1_250);

impl ContainerContext {
    /// Awaits work in a logical partition while its physical partition answers and does not throttle
    /// it for as long as `refused`. Slow work goes on.
    ///
    /// # Errors
    /// Returns the rest of the partition's backoff, and drops the work, when the partition does not
    /// answer or throttles the work, while others answer.
    pub(crate) async fn while_answering<T>(
        &self,
        key: &PartitionKey,
        refused: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, Duration> {
        watch_stall(async {
            tokio::select! {
                done = work => Ok(done),
                backoff = self.until_silent(key, Duration::ZERO, refused) => Err(backoff),
            }
        })
        .await
    }

    /// As [`while_answering`](Self::while_answering), for a request that then fails: after a second
    /// if its partition is silent.
    pub(crate) async fn in_time<T, E: From<Error>>(
        &self,
        key: &PartitionKey,
        request: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        watch_stall(async {
            tokio::select! {
                answered = request => answered,
                backoff = self.until_silent(key, PROBE_INTERVAL, REFUSED) => {
                    let message = format!("the physical partition of {key} does not answer; wait {backoff:?}");
                    Err(Error::new(ErrorKind::Unavailable, message).into())
                }
            }
        })
        .await
    }

    /// Sends a query of a physical partition, with the deadline of [`PartitionHealth::in_time`](crate::partitions::PartitionHealth::in_time).
    pub(crate) async fn query_in_time(
        &self,
        range: &PhysicalPartitionId,
        request: Request,
        admission: Option<Admission>,
    ) -> Result<Accepted> {
        let context = self.clone();
        let sent = async move { context.send_admitted(&request, admission).await };
        self.health.in_time(range, Class::Queries, sent).await
    }

    /// Waits until the physical partition of a logical one does not answer, throttles the work of this
    /// task for as long as `refused`, or does not answer a write of it in time, while others answer. Returns
    /// the rest of its backoff. The deadline of its point reads is shorter by `head_start`.
    async fn until_silent(
        &self,
        key: &PartitionKey,
        head_start: Duration,
        refused: Duration,
    ) -> Duration {
        let mut looked_at = Instant::now();
        let mut next_ping = looked_at + PROBE_INTERVAL;
        loop {
            let range = self.range_with_others(key);
            // A stall that does not count, because no other partition answers, may count at the next ping.
            let stalls_at = refused_since().map(|since| since + refused);
            let writes_until = range.as_ref().and_then(|range| self.writes_until(range));
            let looks = [stalls_at, writes_until].into_iter().flatten();
            let look = looks.filter(|at| *at > looked_at).min();
            sleep_until(look.map_or(next_ping, |at| at.min(next_ping))).await;
            looked_at = Instant::now();
            let range = self.range_with_others(key);
            if let Some(range) = &range
                && let Some(backoff) = self.health.stalled(range, refused)
            {
                return backoff;
            }
            let is_late = |at: &Instant| *at <= looked_at;
            if looked_at < next_ping && !writes_until.as_ref().is_some_and(is_late) {
                continue;
            }
            next_ping = looked_at + PROBE_INTERVAL;
            let Some(range) = range else {
                continue;
            };
            if let Some(backoff) = self.after_ping(key, &range, head_start).await {
                return backoff;
            }
        }
    }

    /// Returns the physical partition of a logical one, if it is known and there are others.
    fn range_with_others(&self, key: &PartitionKey) -> Option<PhysicalPartitionId> {
        let range = self.known_partition_of(key);
        range.filter(|_| !self.health.is_single())
    }

    /// Returns until when the work of this task waits for the answer to a write, if one has none.
    fn writes_until(&self, range: &PhysicalPartitionId) -> Option<Instant> {
        let since = self.health.unanswered_since(range)?;
        Some(since + self.patience_of_writes(range))
    }

    fn patience_of_writes(&self, range: &PhysicalPartitionId) -> Duration {
        self.health.patience(range, Class::Writes) + PROBE_INTERVAL
    }

    /// Returns the backoff of a partition that does not answer a point read, or that answers it but not a
    /// write of the work of this task. Slow work does not make a partition silent: the point read tells
    /// them apart, and the health notes its answer.
    async fn after_ping(
        &self,
        key: &PartitionKey,
        range: &PhysicalPartitionId,
        head_start: Duration,
    ) -> Option<Duration> {
        let (context, pinged) = (self.clone(), key.clone());
        let ping = watch_stall(async move { context.ping(&pinged).await });
        let patience = self.health.patience(range, Class::Points);
        let patience = patience.saturating_sub(head_start);
        let _answer = self
            .health
            .within(range, Class::Points, patience, ping)
            .await;
        if let Some(backoff) = self.health.backoff_of(range) {
            return Some(backoff);
        }
        let most = self.patience_of_writes(range);
        let backoff = self.health.unanswered(range, most)?;
        leave_write();
        Some(backoff)
    }

    /// Reads an item that need not exist.
    async fn ping(&self, key: &PartitionKey) -> Result<()> {
        let item = self.resource.item("ping")?;
        let request = Request::new(RequestKind::Read, Method::GET, item).in_partition(key)?;
        self.send(&request).await.map(drop)
    }
}
