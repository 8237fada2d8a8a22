//! Global secondary indexes: containers whose documents follow from those of a source container.
//! This module knows which container is an index of which, and reads the documents of a source;
//! `op::secondary_index` derives the documents of an index.

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Value, json};

use super::container::Container;
use super::documents::StoredDocument;
use super::rid;
use crate::error::ServiceError;

/// The property of a container's definition that makes it an index, under its two names. Clients
/// send and read either; the store has the older name.
pub(crate) const NEW_NAME: &str = "globalSecondaryIndexDefinition";
pub(crate) const STORED_NAME: &str = "materializedViewDefinition";

/// A global secondary index.
#[derive(Debug)]
pub(crate) struct SecondaryIndex {
    pub(crate) container: Container,
    /// The properties that it has of its source; `None` for all.
    pub(crate) properties: Option<Vec<String>>,
}

pub(super) fn create_table(connection: &Connection) -> Result<(), ServiceError> {
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS secondary_index (
            number INTEGER PRIMARY KEY, source INTEGER NOT NULL, properties TEXT NOT NULL);
         CREATE INDEX IF NOT EXISTS secondary_index_source ON secondary_index (source);",
    )?;
    Ok(())
}

impl SecondaryIndex {
    /// Makes the container an index of `source`. Adds no documents.
    pub(crate) fn link(
        &self,
        connection: &Connection,
        source: &Container,
    ) -> Result<(), ServiceError> {
        connection.execute(
            "INSERT INTO secondary_index (number, source, properties) VALUES (?, ?, ?)",
            params![
                self.container.number,
                source.number,
                serde_json::to_string(&self.properties)?
            ],
        )?;
        Ok(())
    }

    /// Returns the resource id of the document that follows from the source's document with this one.
    pub(crate) fn document_rid(&self, source: &str) -> String {
        rid::moved(self.container.database, self.container.number, source)
    }

    /// Deletes all documents.
    pub(crate) fn clear(&self, connection: &Connection) -> Result<(), ServiceError> {
        connection.execute(
            &format!("DELETE FROM document_{}", self.container.number),
            [],
        )?;
        Ok(())
    }
}

impl Container {
    /// Returns whether this is a global secondary index.
    pub(crate) fn is_secondary_index(&self) -> bool {
        self.definition[STORED_NAME].is_object()
    }

    /// Returns whether the container has global secondary indexes.
    pub(crate) fn has_secondary_indexes(&self) -> bool {
        !self.secondary_indexes.is_null()
    }

    /// Returns the global secondary indexes of this container.
    pub(crate) fn secondary_indexes(
        &self,
        connection: &Connection,
    ) -> Result<Vec<SecondaryIndex>, ServiceError> {
        let numbers = self.secondary_indexes.as_object().into_iter().flatten();
        let numbers = numbers.filter_map(|(_, number)| number.as_i64());
        let indexes = numbers.map(|number| {
            let properties: String = connection
                .prepare_cached("SELECT properties FROM secondary_index WHERE number = ?")?
                .query_row([number], |row| row.get(0))?;
            Ok(SecondaryIndex {
                container: Self::by_number(connection, number)?,
                properties: serde_json::from_str(&properties)?,
            })
        });
        indexes.collect()
    }

    /// Adds to a definition what the service returns: of an index both names and the state, of a
    /// source the list of its indexes. An index is complete when its creation returns.
    pub(super) fn describe_indexes(&self, body: &mut Value) {
        if self.is_secondary_index() {
            body[STORED_NAME]["status"] = "Active".into();
            body[NEW_NAME] = body[STORED_NAME].clone();
        }
        if let Some(indexes) = self.secondary_indexes.as_object() {
            let indexes = indexes.iter().map(|(id, number)| {
                let number = number.as_i64().unwrap_or_default();
                json!({ "id": id, "_rid": rid::of_container(self.database, number) })
            });
            body["materializedViews"] = indexes.collect();
        }
    }

    /// Forgets that the container is an index.
    pub(super) fn unlink(&self, connection: &Connection) -> Result<(), ServiceError> {
        connection.execute(
            "DELETE FROM secondary_index WHERE number = ?",
            [self.number],
        )?;
        Ok(())
    }

    /// Reads a stored document, even if it has expired.
    pub(crate) fn read_row(
        &self,
        connection: &Connection,
        pk: &str,
        id: &str,
    ) -> Result<Option<StoredDocument>, ServiceError> {
        let sql = self.rows("WHERE pk = ? AND id = ?");
        Ok(connection
            .prepare_cached(&sql)?
            .query_row([pk, id], StoredDocument::from_row)
            .optional()?)
    }

    /// Visits all stored documents, also those that have expired.
    pub(crate) fn each_row(
        &self,
        connection: &Connection,
        mut visit: impl FnMut(StoredDocument) -> Result<(), ServiceError>,
    ) -> Result<(), ServiceError> {
        let mut statement = connection.prepare(&self.rows(""))?;
        for row in statement.query_map([], StoredDocument::from_row)? {
            visit(row?)?;
        }
        Ok(())
    }

    fn rows(&self, condition: &str) -> String {
        format!(
            "SELECT pk, id, epk, body, etag, lsn, ts, expires FROM document_{} {condition}",
            self.number
        )
    }
}
