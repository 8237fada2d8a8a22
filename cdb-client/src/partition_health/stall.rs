//! Since when the work of a task is refused, or waits for an answer.

use std::cell::Cell;

use tokio::time::Instant;

use super::circuit::Class;

tokio::task_local! {
    /// The time since which the innermost [`watch_stall`] of this task gets only refusals, and the class
    /// of its request.
    pub(super) static STALL: Cell<Option<(Class, Instant)>>;

    /// The time since which the innermost [`watch_stall`] of this task waits for the answer to a request.
    pub(super) static SENT: Cell<Option<Instant>>;
}

/// Notes that the work of this task waits for an answer, or has got one.
pub(super) fn note_sent(is_open: bool) {
    let _no_work = SENT.try_with(|sent| {
        let since = sent.get().filter(|_| is_open);
        sent.set(since.or(is_open.then(Instant::now)));
    });
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
    let work = Box::pin(SENT.scope(Cell::new(None), work));
    STALL.scope(Cell::new(None), work).await
}
