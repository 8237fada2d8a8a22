//! Work of a physical partition that refuses requests or is slow goes behind that of others.
//!
//! One of several dispatchers stays free for the others. While the partition is only slow, none needs to
//! before there are others: work that comes then waits for one turn or activity at most.

use std::time::Duration;

use super::local_queue::{Behind, Caller, Guard, Work};
use super::{CONCURRENCY, Services};

/// Returns for how long the work of an instance goes behind that of others, and whether a dispatcher
/// stays free for the others.
fn behind(services: &Services, instance_id: &str) -> Option<(Duration, Behind)> {
    let behind = services.container().behind(&instance_id.into())?;
    let is_alone = behind.is_slow && !services.queues.other_work.is_recent();
    let order = if is_alone {
        Behind::InOrder
    } else {
        Behind::Yielding
    };
    Some((behind.rest, order))
}

/// Returns whether dispatchers stay free of the work of an instance.
pub(crate) fn is_yielding(services: &Services, instance_id: &str) -> bool {
    matches!(behind(services, instance_id), Some((_, Behind::Yielding)))
}

/// Notes that a dispatcher begins work of an instance.
pub(crate) fn note_begin(services: &Services, instance_id: &str) {
    if services.container().behind(&instance_id.into()).is_none() {
        services.queues.other_work.note();
    }
}

/// Puts an item behind those of other partitions, unless none of them is ready: its partition refuses
/// requests or is slow, so that each request of its work may take long. While many ends are stored without
/// their dispatchers, the item is not handed out. Returns `None` if it is not handed out now.
pub(crate) fn go_behind<'a, W: Work>(
    services: &Services,
    guard: Guard<'a, W>,
    instance_id: &str,
    caller: Caller,
) -> Option<Guard<'a, W>> {
    if !caller.is_runtime() {
        return Some(guard);
    }
    let Some((pause, order)) = behind(services, instance_id) else {
        services.queues.other_work.note();
        return Some(guard);
    };
    if guard.taken_from() < Some(order) {
        guard.go_behind(pause, order);
    } else if guard.detached() >= CONCURRENCY {
        guard.back_off(pause, |_| {});
    } else {
        return Some(guard);
    }
    None
}

impl Services {
    /// Runs an attempt at an item of this instance, charged to it.
    ///
    /// # Errors
    /// Fails with its backoff if the physical partition does not answer.
    pub(crate) async fn attempt<T>(
        &self,
        instance_id: &str,
        attempt: impl Future<Output = T>,
    ) -> Result<T, Duration> {
        let attempt = self.ledger.charge(instance_id, attempt);
        let partition = instance_id.into();
        self.container().while_answering(&partition, attempt).await
    }
}
