//! Whether this build has an engine.

use crate::error::ServiceError;

/// Fails if this build has no engine.
pub(crate) fn require() -> Result<(), ServiceError> {
    if cfg!(feature = "scripts") {
        return Ok(());
    }
    Err(ServiceError::bad_request(
        "Stored procedures, triggers and user-defined functions need the feature `scripts` of cdb-emulator.",
    ))
}
