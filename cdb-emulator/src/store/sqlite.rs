//! Connections to SQLite and their settings.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

/// Prepared statements that a connection caches.
const STATEMENTS: usize = 256;

/// Opens a store in memory.
///
/// Its pages have twice the default size. When SQLite has reordered pages of a tree, the commit
/// visits the table of all pages in memory (`pcache1TruncateUnsafe`), and larger pages halve that
/// table. Still larger pages would make every write slower, because it copies each page that it
/// changes.
pub(super) fn open_in_memory() -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory()?;
    connection.pragma_update(None, "page_size", 8192)?;
    Ok(connection)
}

/// Opens a connection that only reads.
pub(super) fn open_reader(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    tune(&connection)?;
    cache_statements(&connection)?;
    Ok(connection)
}

/// Sets the memory that a connection to a file uses.
pub(super) fn tune(connection: &Connection) -> rusqlite::Result<()> {
    // 32 MB of pages per connection; the rest of the file is mapped, up to SQLite's limit of 2 GB.
    connection.pragma_update(None, "cache_size", -32_768)?;
    connection.pragma_update(None, "mmap_size", 1_i64 << 31)?;
    connection.pragma_update(None, "temp_store", "MEMORY")
}

/// Caches prepared statements and keeps their query plans. Without the stable plans SQLite would
/// prepare a statement again for other parameter values, but here the emulator chooses the index.
pub(super) fn cache_statements(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}
