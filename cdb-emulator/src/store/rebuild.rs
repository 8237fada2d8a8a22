//! Rebuilds the tables of containers: after a change of the indexing policy, and those of directories that
//! older emulators wrote.

use rusqlite::Connection;

use super::container::Container;
use super::index::columns::PathKeys;
use super::index::policy::{create_indexes, create_table};
use crate::protocol::ServiceError;

/// Rebuilds the tables of all containers, and removes what only older emulators read.
pub(super) fn rebuild_all(connection: &Connection) -> Result<(), ServiceError> {
    let transaction = connection.unchecked_transaction()?;
    let mut containers = transaction.prepare(
        "SELECT number FROM container
         WHERE EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'document_' || number)",
    )?;
    let numbers: Vec<i64> = containers
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    drop(containers);
    for number in numbers {
        Container::by_number(&transaction, number)?.rebuild(&transaction)?;
    }
    transaction.execute_batch(
        "DROP TABLE IF EXISTS transformation;
         DROP TABLE IF EXISTS subtree_index;
         DROP TABLE IF EXISTS secondary_index;
         DROP TABLE IF EXISTS named_resource;
         UPDATE container SET generation = 0;",
    )?;
    transaction.commit()?;
    Ok(())
}

impl Container {
    /// Copies the documents into a table with the indexes of the policy, which replaces the former
    /// table.
    pub(super) fn rebuild(&self, connection: &Connection) -> Result<(), ServiceError> {
        let (table, policy) = (self.table(), self.policy());
        let next = format!("{table}_next");
        connection.execute_batch(&format!("DROP TABLE IF EXISTS {next}"))?;
        create_table(connection, &next, policy)?;
        let mut columns = "pk, id, epk, body, etag, lsn, ts, expires".to_owned();
        let mut values = columns.clone();
        for column in policy.columns() {
            let found = PathKeys::in_body(column.path.clone());
            columns.extend([", ", &column.rank, ", ", &column.value]);
            values.extend([", ", &found.rank, ", ", &found.value]);
        }
        connection.execute_batch(&format!(
            "INSERT INTO {next} ({columns}) SELECT {values} FROM {table};
             DROP TABLE {table};
             ALTER TABLE {next} RENAME TO {table};"
        ))?;
        create_indexes(connection, &table, policy)
    }
}
