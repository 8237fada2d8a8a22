//! The lock that a runtime's dispatcher holds on an instance.

use cdb_model::Timestamp;
use cdb_provider::documents::Instance;

/// Returns the end of the dispatcher's lock, or `None` when the instance is not locked.
pub(crate) fn locked_until(instance: &Instance, now: Timestamp) -> Option<Timestamp> {
    let until = instance.locked_until.filter(|until| *until > now);
    until.filter(|_| instance.lock_token.is_some())
}
