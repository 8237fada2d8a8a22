//! A request that goes on when its caller leaves it, because its answer tells how long the partition
//! takes. Otherwise each caller of a slow partition would leave, and none would ever learn it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use super::breakers::PartitionHealth;
use super::circuit::Class;
use super::stall::{leaves_write, work_of_task};
use crate::error::Result;
use crate::partitions::ranges::PhysicalPartitionId;

/// The time for which a request goes on after its deadline. Its answer tells how long the partition
/// takes. Attempts end after this time by default.
pub(super) const GOES_ON: Duration = Duration::from_secs(10);

/// A write of the work of a task.
pub(crate) struct GoesOn<T: Send + 'static> {
    health: Arc<PartitionHealth>,
    range: PhysicalPartitionId,
    write: Option<BoxFuture<'static, Result<T>>>,
}

/// Returns whether the requests of this class go on without their callers in this task.
pub(crate) fn goes_on(class: Class) -> bool {
    class == Class::Writes && work_of_task().is_some()
}

impl PartitionHealth {
    pub(super) fn lets_go_on(&self, range: &PhysicalPartitionId, class: Class) -> bool {
        let now = Instant::now();
        let mut circuits = self.circuits();
        let known = circuits.get_mut(range);
        known.is_some_and(|known| known.lets_go_on(class, now, now + GOES_ON))
    }
}

impl<T: Send + 'static> GoesOn<T> {
    pub(crate) fn new(
        health: Arc<PartitionHealth>,
        range: PhysicalPartitionId,
        write: BoxFuture<'static, Result<T>>,
    ) -> Self {
        let write = Some(write);
        Self {
            health,
            range,
            write,
        }
    }
}

impl<T: Send + 'static> Future for GoesOn<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let write = self.write.as_mut().expect("it is polled until it ends");
        let polled = write.as_mut().poll(context);
        if polled.is_ready() {
            self.write = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for GoesOn<T> {
    fn drop(&mut self) {
        if let Some(write) = self.write.take()
            && leaves_write()
            && let Ok(runtime) = Handle::try_current()
            && self.health.lets_go_on(&self.range, Class::Writes)
        {
            runtime.spawn(async move {
                // Its watch notes the answer.
                let _answer = timeout(GOES_ON, write).await;
            });
        }
    }
}
