//! What holds up the work of a task.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::time::Instant;

use super::circuit::Class;
use super::unanswered::WorkId;

/// What is known of the work of a task.
struct Stall {
    id: WorkId,
    /// The time since which the work gets only refusals, and the class of its request.
    refused: Cell<Option<(Class, Instant)>>,
    /// Whether the work is dropped because of a write without an answer.
    leaves_write: Cell<bool>,
}

static LAST_ID: AtomicU64 = AtomicU64::new(0);

tokio::task_local! {
    /// The innermost [`watch_stall`] of this task.
    static STALL: Stall;
}

/// Notes an answer for the work of this task. Requests outside of work note nothing.
pub(super) fn note_stall(class: Class, is_refused: bool) {
    let _no_work = STALL.try_with(|stall| {
        let since = stall.refused.get().filter(|_| is_refused);
        let begins = is_refused.then(|| (class, Instant::now()));
        stall.refused.set(since.or(begins));
    });
}

/// Returns since when the work of this task is refused, and the class of the refused request.
pub(super) fn refused() -> Option<(Class, Instant)> {
    STALL.try_with(|stall| stall.refused.get()).ok().flatten()
}

/// Returns since when the work of this task is refused.
pub(crate) fn refused_since() -> Option<Instant> {
    refused().map(|(_, since)| since)
}

/// Returns the work of this task; `None` outside of work.
pub(super) fn work_of_task() -> Option<WorkId> {
    STALL.try_with(|stall| stall.id).ok()
}

/// Notes that the work of this task is dropped because of a write without an answer.
pub(crate) fn leave_write() {
    let _no_work = STALL.try_with(|stall| stall.leaves_write.set(true));
}

/// Whether the work of this task is dropped because of a write without an answer.
pub(super) fn leaves_write() -> bool {
    STALL
        .try_with(|stall| stall.leaves_write.get())
        .unwrap_or(false)
}

/// Awaits work, and notes what its requests wait for. The health of its partition reads that in the same task.
pub(crate) async fn watch_stall<T>(work: impl Future<Output = T>) -> T {
    let stall = Stall {
        id: LAST_ID.fetch_add(1, Relaxed),
        refused: Cell::default(),
        leaves_write: Cell::default(),
    };
    // Boxed, so that the futures of callers stay small.
    STALL.scope(stall, Box::pin(work)).await
}
