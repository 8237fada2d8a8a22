//! Work of a physical partition that refuses requests goes behind that of others.

use super::local_queue::{Caller, Guard, Work};
use super::{CONCURRENCY, Services};

/// Puts an item behind those of other partitions, unless none of them is ready: its partition refuses
/// requests, so that each request of its work may take long. While many ends are stored without their
/// dispatchers, the item is not handed out. Returns `None` if it is not handed out now.
pub(crate) fn go_behind<'a, W: Work>(
    services: &Services,
    guard: Guard<'a, W>,
    instance_id: &str,
    caller: Caller,
) -> Option<Guard<'a, W>> {
    let pause = services.container().behind_for(&instance_id.into());
    let Some(pause) = pause.filter(|_| caller.is_runtime()) else {
        return Some(guard);
    };
    if !guard.is_yielding() {
        guard.go_behind(pause);
    } else if guard.detached() >= CONCURRENCY {
        guard.back_off(pause, |_| {});
    } else {
        return Some(guard);
    }
    None
}
