//! State that nodes, clients and judges share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A value behind a lock. A panic under the lock ends the run elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Guarded<T>(Arc<Mutex<T>>);

impl<T> Guarded<T> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Guarded<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
