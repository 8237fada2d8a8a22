//! The caller of a fetch, its claim to an item, and the lock that results.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex as AsyncMutex;

use super::slot::{Epoch, Work};

/// The caller of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A dispatcher of a runtime. Its fetch is a long poll, and it needs no answer about the effects
    /// of its commits on other instances.
    Runtime,
    /// A caller without a long poll: its fetch polls once and takes what it finds, and its commits
    /// wait for the delivery of their messages.
    Single,
}

impl Caller {
    /// Returns the caller of a fetch that waits for this time.
    pub(crate) fn of(poll_timeout: Duration) -> Self {
        if poll_timeout.is_zero() {
            Self::Single
        } else {
            Self::Runtime
        }
    }

    pub(crate) fn is_runtime(self) -> bool {
        self == Self::Runtime
    }
}

/// The claim of a dispatcher to an item. It ends once. No other dispatcher can claim the item
/// before that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim<K> {
    pub(crate) key: K,
    pub(super) epoch: Epoch,
}

/// An item that the runtime is processing.
#[derive(Debug)]
pub(super) struct FetchedItem<W: Work> {
    pub(super) claim: Claim<W::Key>,
    pub(super) running: Shared<W>,
    pub(super) caller: Caller,
    pub(super) since: Instant,
    /// Whether its end is stored without its dispatcher.
    pub(super) is_detached: bool,
}

/// An item that the runtime is processing. Its renewal and its end both change its ETag, so they
/// exclude each other.
pub(crate) type Shared<W> = Arc<AsyncMutex<<W as Work>::Running>>;

/// A prelock that no dispatcher has used.
pub(crate) type UnusedPrelock<W> = (Claim<<W as Work>::Key>, Box<<W as Work>::Lock>);

/// An acquired lock.
pub(crate) struct Won<L> {
    pub(crate) lock: L,
    pub(crate) token: String,
    /// The expiry of the lock.
    pub(crate) until: Instant,
}
