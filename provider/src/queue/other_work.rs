//! When this process began work that does not go behind other work.

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::timing::OTHERS_WITHIN;

/// The last begin of such work.
#[derive(Debug, Default)]
pub(crate) struct OtherWork(Mutex<Option<Instant>>);

impl OtherWork {
    pub(super) fn note(&self) {
        *self.0.lock() = Some(Instant::now());
    }

    pub(super) fn is_recent(&self) -> bool {
        let last = *self.0.lock();
        last.is_some_and(|last| last.elapsed() < OTHERS_WITHIN)
    }
}
