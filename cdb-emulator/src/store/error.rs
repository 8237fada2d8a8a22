//! Why a store cannot be opened.

use std::path::PathBuf;

/// An error when a store is opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// Another emulator uses the directory.
    InUse { directory: PathBuf },
    /// A newer version wrote the directory.
    Newer {
        directory: PathBuf,
        found: i64,
        known: i64,
    },
    /// The directory or the thread of the writer cannot be used; the text says what to do.
    Storage { reason: String },
    /// SQLite failed.
    Sqlite(rusqlite::Error),
}

impl OpenError {
    pub(super) fn storage(reason: impl std::fmt::Display) -> Self {
        Self::Storage {
            reason: reason.to_string(),
        }
    }
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}
