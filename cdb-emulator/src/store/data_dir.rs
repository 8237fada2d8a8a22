//! The data directory: locked by one process at a time, with a schema version.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode};

use super::error::OpenError;
use super::sqlite::tune;
use super::{catalog, rebuild};

/// The schema version that this emulator writes. A change of the tables increments it, and
/// [`DataDir::open`] then has to migrate older data.
const SCHEMA: i64 = 4;
/// Identifies the emulator's files among other SQLite files ("cdbe").
const APPLICATION: i64 = 0x6364_6265;

/// A locked data directory.
#[derive(Debug)]
pub(super) struct DataDir {
    directory: PathBuf,
    /// Locked while it is open; the operating system releases the lock when the process ends in any
    /// way.
    lock: File,
}

impl DataDir {
    /// Creates the directory if it is missing, and locks it against other processes.
    pub(super) fn lock(directory: &Path) -> Result<Self, OpenError> {
        let failed = |path: &Path, error| {
            OpenError::storage(format_args!(
                "{}: {error}; choose a directory that this user can write",
                path.display()
            ))
        };
        std::fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
        let path = directory.join("cosmos.lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|error| failed(&path, error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                directory: directory.to_owned(),
                lock,
            }),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse {
                directory: directory.to_owned(),
            }),
            Err(TryLockError::Error(error)) => Err(failed(&path, error)),
        }
    }

    /// Returns the path of the database.
    pub(super) fn file(&self) -> PathBuf {
        self.directory.join("cosmos.sqlite")
    }

    /// Opens the connection of the writer. A file of another application is not changed.
    pub(super) fn open(&self) -> Result<Connection, OpenError> {
        let connection = Connection::open(self.file())?;
        self.check(&connection)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        tune(&connection)?;
        migrate(&connection)?;
        connection.pragma_update(None, "application_id", APPLICATION)?;
        connection.pragma_update(None, "user_version", SCHEMA)?;
        Ok(connection)
    }

    /// Rejects files of other applications and of newer versions.
    fn check(&self, connection: &Connection) -> Result<(), OpenError> {
        let foreign = || {
            OpenError::storage(format_args!(
                "{} is not a database of this emulator; choose another directory",
                self.file().display()
            ))
        };
        let tables = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| {
            row.get::<_, i64>(0)
        });
        let tables = match tables {
            Ok(tables) => tables,
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
                return Err(foreign());
            }
            Err(error) => return Err(error.into()),
        };
        let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let (application, found) = (pragma("application_id")?, pragma("user_version")?);
        if tables > 0 && application != APPLICATION {
            return Err(foreign());
        }
        if found > SCHEMA {
            return Err(OpenError::Newer {
                directory: self.directory.clone(),
                found,
                known: SCHEMA,
            });
        }
        Ok(())
    }

    /// Unlocks the directory.
    pub(super) fn unlock(&self) {
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, "the data directory stays locked until this process ends");
        }
    }
}

/// Migrates data of older emulators. Before schema version 2, all partition keys were hashed as in
/// version 2, also those of definitions without a version. Before schema version 3, indexed paths had
/// no columns, and before schema version 4, tables had no row ids. A directory with the table `transformation` can have an unfinished rebuild, index names
/// with a generation, and columns inside subtrees, which no write fills.
fn migrate(connection: &Connection) -> Result<(), OpenError> {
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found == 1 && connection.table_exists(None, "container")? {
        connection.execute(
            "UPDATE container SET definition = json_set(definition, '$.partitionKey.version', 2)",
            [],
        )?;
    }
    if matches!(found, 1..SCHEMA) || connection.table_exists(None, "transformation")? {
        tracing::info!("rebuilding the tables of a data directory that an older emulator wrote");
        let rebuilt = catalog::create(connection).and_then(|()| rebuild::rebuild_all(connection));
        rebuilt.map_err(|error| OpenError::storage(error.message))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::{Value, json};

    use crate::op::rows_of;
    use crate::store::index::columns::PathKeys;
    use crate::store::{Connection, Container, Database, Store, StoredDocument};

    /// Writes a directory with a container and an index on `/a`, and changes it by SQL as an older
    /// emulator left it.
    fn directory(change: impl Fn(&str) -> String) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(Some(folder.path())).unwrap();
        let connection = store.lock();
        Database::create(&connection, "d", 0).unwrap();
        let definition = json!({
            "id": "c", "partitionKey": { "paths": ["/pk"] }, "indexingPolicy": {
                "includedPaths": [{ "path": "/a/?" }, { "path": "/labels/*" }],
                "excludedPaths": [{ "path": "/*" }],
            },
        });
        let container = Container::create(&connection, "d", &definition, 1, 0).unwrap();
        for n in 0..20 {
            let document = StoredDocument {
                pk: "[\"p\"]".to_owned(),
                id: n.to_string(),
                epk: String::new(),
                body: json!({ "a": n, "labels": { "size": -n } }).to_string(),
                etag: String::new(),
                lsn: 1,
                ts: 0,
                expires: None,
            };
            container.write(&connection, &document).unwrap();
        }
        connection
            .execute_batch(&change(&container.table()))
            .unwrap();
        drop(connection);
        drop(store);
        folder
    }

    /// Opens a directory. Returns the documents with `a` = 7, by the index.
    fn found(folder: &tempfile::TempDir) -> Vec<Value> {
        let store = Store::open(Some(folder.path())).unwrap();
        let connection: &Connection = &store.lock();
        let container = Container::find(connection, "d", "c").unwrap();
        let text = "SELECT VALUE c.labels.size FROM c WHERE c.a = 7 AND c.labels.size < 0";
        rows_of(connection, &container, text, HashMap::new(), 10).unwrap()
    }

    #[test]
    fn a_directory_without_columns_is_rebuilt_when_it_is_opened() {
        let PathKeys { rank, value, .. } = PathKeys::in_body("/a".to_owned());
        let columns = "pk, id, epk, etag, lsn, ts, expires, body";
        let folder = directory(|table| {
            format!(
                "CREATE TABLE older (
                    pk TEXT NOT NULL, id TEXT NOT NULL, epk TEXT NOT NULL, etag TEXT NOT NULL, lsn INTEGER NOT NULL,
                    ts INTEGER NOT NULL, expires INTEGER, body TEXT NOT NULL, PRIMARY KEY (pk, id)) WITHOUT ROWID;
                 INSERT INTO older SELECT {columns} FROM {table};
                 DROP TABLE {table};
                 ALTER TABLE older RENAME TO {table};
                 CREATE INDEX {table}_lsn ON {table} (lsn);
                 CREATE INDEX {table}_path_0 ON {table} ({rank} ASC, {value} ASC);
                 PRAGMA user_version = 2;"
            )
        });
        assert_eq!(found(&folder), [json!(-7)]);
    }

    #[test]
    fn tables_without_row_ids_are_rebuilt_when_their_directory_is_opened() {
        let folder = directory(|table| {
            format!(
                "CREATE TABLE older (
                    pk TEXT NOT NULL, id TEXT NOT NULL, epk TEXT NOT NULL, etag TEXT NOT NULL, lsn INTEGER NOT NULL,
                    ts INTEGER NOT NULL, expires INTEGER, \"rank/a\" INTEGER NOT NULL DEFAULT 0, \"value/a\",
                    body TEXT NOT NULL, PRIMARY KEY (pk, id)) WITHOUT ROWID;
                 INSERT INTO older SELECT pk, id, epk, etag, lsn, ts, expires, \"rank/a\", \"value/a\", body FROM {table};
                 DROP TABLE {table};
                 ALTER TABLE older RENAME TO {table};
                 CREATE INDEX {table}_lsn ON {table} (lsn);
                 CREATE INDEX {table}_path_0 ON {table} (\"rank/a\" ASC, \"value/a\" ASC);
                 PRAGMA user_version = 3;"
            )
        });
        assert_eq!(found(&folder), [json!(-7)]);
        let connection = Connection::open(folder.path().join("cosmos.sqlite")).unwrap();
        let without: i64 = connection
            .query_row(
                "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'document_%' AND sql LIKE '%WITHOUT ROWID%'",
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(without, 0);
    }

    #[test]
    fn a_directory_with_an_unfinished_rebuild_is_rebuilt_when_it_is_opened() {
        let folder = directory(|table| {
            format!(
                "CREATE TABLE transformation (container INTEGER PRIMARY KEY);
                 CREATE TABLE subtree_index (number INTEGER PRIMARY KEY, container INTEGER, path TEXT);
                 CREATE TABLE {table}_next (pk TEXT NOT NULL, id TEXT NOT NULL);
                 CREATE TRIGGER {table}_DELETE AFTER DELETE ON {table} BEGIN
                    DELETE FROM {table}_next WHERE pk = OLD.pk AND id = OLD.id; END;
                 ALTER TABLE {table} ADD COLUMN \"rank/labels/size\" INTEGER NOT NULL DEFAULT 0;
                 DROP INDEX {table}_path_0;
                 CREATE INDEX {table}_g5_path_0 ON {table} (\"rank/a\" ASC, \"value/a\" ASC);
                 UPDATE container SET generation = 5;"
            )
        });
        assert_eq!(found(&folder), [json!(-7)]);
        let connection = Connection::open(folder.path().join("cosmos.sqlite")).unwrap();
        let older: i64 = connection
            .query_row(
                "SELECT (SELECT count(*) FROM sqlite_schema WHERE name IN ('transformation', 'subtree_index'))
                    + (SELECT sum(generation) FROM container)",
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(older, 0);
    }
}
