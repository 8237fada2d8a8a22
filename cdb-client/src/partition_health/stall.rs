//! Since when the work of a task is refused.

use std::cell::Cell;

use tokio::time::Instant;

use super::circuit::Class;

tokio::task_local! {
    /// The time since which the innermost [`watch_stall`] of this task gets only refusals, and the class
    /// of its request.
    pub(super) static STALL: Cell<Option<(Class, Instant)>>;
}

/// Notes an answer for the work of this task. Requests outside of work note nothing.
pub(super) fn note_stall(class: Class, is_refused: bool) {
    let _no_work = STALL.try_with(|stall| {
        let since = stall.get().filter(|_| is_refused);
        let begins = is_refused.then(|| (class, Instant::now()));
        stall.set(since.or(begins));
    });
}

/// Returns since when the work of this task is refused.
pub(crate) fn refused_since() -> Option<Instant> {
    let stall = STALL.try_with(Cell::get).ok().flatten();
    stall.map(|(_, since)| since)
}

/// Awaits work of which [`PartitionHealth::stalled`](super::PartitionHealth::stalled) tells whether it is throttled.
pub(crate) async fn watch_stall<T>(work: impl Future<Output = T>) -> T {
    // Boxed, so that the futures of callers stay small.
    STALL.scope(Cell::new(None), Box::pin(work)).await
}
