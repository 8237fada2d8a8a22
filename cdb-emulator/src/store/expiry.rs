//! When documents expire.

use rusqlite::{Connection, params};

use super::container::Container;
use crate::error::ServiceError;

impl Container {
    /// Reckons anew when every document expires, because the default of the container has changed: documents without
    /// a `ttl` of their own follow it from their last change on (time-to-live).
    pub(crate) fn reckon_expiry(
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
