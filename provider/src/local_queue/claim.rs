//! The right to an item, and the lock that comes of it.

use std::sync::Arc;
use std::time::Instant;

use super::slot::{Epoch, Work};

/// A dispatcher's right to an item. Void when another claim has taken its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim<K> {
    pub(crate) key: K,
    pub(super) epoch: Epoch,
}

/// An item that the runtime works on.
#[derive(Debug)]
pub(super) struct Held<W: Work> {
    pub(super) claim: Claim<W::Key>,
    pub(super) running: Arc<W::Running>,
    pub(super) long_poll: bool,
    pub(super) since: Instant,
}

/// A lock that was taken ahead and that no dispatcher has asked for.
pub(crate) type Unwanted<W> = (Claim<<W as Work>::Key>, Box<<W as Work>::Lock>);

/// A lock that was won.
pub(crate) struct Won<L> {
    pub(crate) lock: L,
    pub(crate) token: String,
    /// When it ends by itself.
    pub(crate) until: Instant,
}
