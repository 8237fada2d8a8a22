//! Log sequence numbers and ETags.

use rusqlite::Connection;

use crate::protocol::ServiceError;

/// Takes the next log sequence number. Each write has its own; the writes of a batch share one.
pub(crate) fn next_lsn(connection: &Connection) -> Result<i64, ServiceError> {
    Ok(connection
        .prepare_cached("UPDATE sequence SET lsn = lsn + 1 RETURNING lsn")?
        .query_row([], |row| row.get(0))?)
}

/// Returns the last log sequence number.
pub(crate) fn last_lsn(connection: &Connection) -> Result<i64, ServiceError> {
    Ok(connection
        .prepare_cached("SELECT lsn FROM sequence")?
        .query_row([], |row| row.get(0))?)
}

/// Returns a new, unique ETag.
pub(crate) fn new_etag() -> String {
    format!("\"{}\"", uuid::Uuid::new_v4())
}
