//! A write that goes on when its caller leaves it, because its answer tells how long the partition
//! takes. Otherwise each caller of a slow partition would leave, and none would ever learn it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::breakers::{GOES_ON, PartitionHealth};
use super::circuit::Class;
use super::stall::{leaves_write, work_of_task};
use crate::error::Result;
use crate::partitions::ranges::PhysicalPartitionId;
use crate::protocol::Accepted;

/// A write of the work of a task.
pub(crate) struct GoesOn {
    health: Arc<PartitionHealth>,
    range: PhysicalPartitionId,
    write: Option<BoxFuture<'static, Result<Accepted>>>,
}

impl GoesOn {
    /// Returns whether the requests of this class go on without their callers in this task.
    pub(crate) fn concerns(class: Class) -> bool {
        class == Class::Writes && work_of_task().is_some()
    }

    pub(crate) fn new(
        health: Arc<PartitionHealth>,
        range: PhysicalPartitionId,
        write: BoxFuture<'static, Result<Accepted>>,
    ) -> Self {
        let write = Some(write);
        Self {
            health,
            range,
            write,
        }
    }
}

impl Future for GoesOn {
    type Output = Result<Accepted>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let write = self.write.as_mut().expect("it is polled until it ends");
        let polled = write.as_mut().poll(context);
        if polled.is_ready() {
            self.write = None;
        }
        polled
    }
}

impl Drop for GoesOn {
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
