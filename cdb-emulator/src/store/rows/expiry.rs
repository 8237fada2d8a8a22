//! The expiry of documents.
//!
//! `_ts` has no fractions of a second, so a document is there during the second `_ts` + `ttl` too:
//! otherwise it could expire almost a second before `ttl` has passed since its last change
//! (time-to-live, "n seconds after last modified").

use rusqlite::{Connection, params};

use crate::protocol::ServiceError;
use crate::store::container::Container;

impl Container {
    /// Returns whether documents can expire.
    pub(crate) fn has_expiry(&self) -> bool {
        self.default_ttl().is_some()
    }

    /// Updates the expiry of all documents after a change of the default. Documents without a `ttl`
    /// expire by the default, counted from their last change (time-to-live).
    pub(crate) fn update_expiry(
        &self,
        connection: &Connection,
        default: Option<i64>,
    ) -> Result<(), ServiceError> {
        let sql = format!(
            "UPDATE document_{} SET expires = CASE
                WHEN ?1 IS NOT NULL AND coalesce(json_extract(body, '$.ttl'), ?1) > 0
                THEN ts + coalesce(json_extract(body, '$.ttl'), ?1) END",
            self.number
        );
        connection.execute(&sql, params![default])?;
        Ok(())
    }
}
