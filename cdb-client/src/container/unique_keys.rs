//! The unique keys of a container, as far as its client knows them.

use std::sync::{PoisonError, RwLock};

use cdb_model::container::UniqueKey;

use crate::error::{ConflictCause, Error};

/// What a client knows of the unique keys of a container.
#[derive(Debug, Default)]
pub(crate) struct UniqueKeys(RwLock<Known>);

#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    keys: Vec<UniqueKey>,
    /// Whether the live container has these keys and no others.
    is_checked: bool,
}

impl UniqueKeys {
    /// Notes the keys of a model that may lack keys of the container.
    pub(crate) fn declare(&self, keys: impl FnOnce() -> Vec<UniqueKey>) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !known.is_checked && known.keys.is_empty() {
            known.keys = keys();
        }
    }

    /// Notes all keys of the live container.
    pub(crate) fn check(&self, keys: Vec<UniqueKey>) {
        let is_checked = true;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Known { keys, is_checked };
    }

    /// Forgets the keys of a deleted or re-created container.
    pub(crate) fn forget(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Known::default();
    }

    pub(super) fn known(&self) -> Known {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.clone()
    }
}

impl Known {
    /// Whether the container certainly has no unique keys.
    pub(super) fn is_none(&self) -> bool {
        self.is_checked && self.keys.is_empty()
    }

    /// Names the unique keys in the error of a conflict: the service does not say which one it is
    /// about.
    pub(super) fn named_in(&self, error: Error) -> Error {
        let error = error.with_conflict_cause(ConflictCause::UniqueKey);
        if self.keys.is_empty() {
            return error;
        }
        let keys: Vec<_> = self
            .keys
            .iter()
            .map(|key| format!("({})", key.paths.join(", ")))
            .collect();
        error.with_context(&format!(
            "another document of the partition has the same values at the paths of a unique key, one of {}",
            keys.join(", ")
        ))
    }
}
