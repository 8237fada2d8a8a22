//! The errors of the Rust API.

use std::path::PathBuf;

use crate::store::OpenError;

/// An error when the emulator starts, changes its settings or regions, or splits a physical
/// partition.
///
/// ```
/// use cdb_emulator::{Emulator, EmulatorError};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let first = Emulator::builder().data_dir(folder.path()).start().await?;
/// let second = Emulator::builder().data_dir(folder.path()).start().await;
/// match second.map(drop) {
///     Err(EmulatorError::InUse { directory }) => assert_eq!(directory, folder.path()),
///     other => panic!("two emulators on one directory: {other:?}"),
/// }
/// # first.stop().await; Ok(()) }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// Another program listens on the port.
    #[error(
        "port {port} is in use; stop the program that listens there, or choose port 0 for any free port"
    )]
    PortInUse {
        /// The port.
        port: u16,
    },
    /// The emulator cannot listen on the port.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address; port 0 stands for any free port.
        address: std::net::SocketAddr,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// A setting has an invalid value, or is fixed at the start.
    #[error("invalid setting `{setting}`: {reason}")]
    Setting {
        /// The name of the setting in JSON, for example `physicalPartitions`.
        setting: String,
        /// The given value and the valid values.
        reason: String,
    },
    /// Another emulator, in this process or another one, uses the directory.
    #[error(
        "the data directory {} is in use; stop the emulator that runs on it, or choose another directory",
        .directory.display()
    )]
    InUse {
        /// The directory.
        directory: PathBuf,
    },
    /// A newer version wrote the directory. It was not changed.
    #[error(
        "the data directory {} has schema version {found}, but this emulator supports versions up to {known}; use the \
         newer emulator that wrote the directory, or choose another directory",
        .directory.display()
    )]
    Newer {
        /// The directory.
        directory: PathBuf,
        /// The schema version of its data.
        found: i64,
        /// The newest schema version that this emulator supports.
        known: i64,
    },
    /// A physical partition cannot be split.
    #[error("cannot split physical partition {range_id}: {reason}")]
    Split {
        /// The id of the physical partition.
        range_id: String,
        /// Why it cannot be split.
        reason: String,
    },
    /// Physical partitions cannot be merged.
    #[error("cannot merge physical partitions {} and {}: {reason}", .range_ids[0], .range_ids[1])]
    Merge {
        /// The ids of the physical partitions.
        range_ids: [String; 2],
        /// Why they cannot be merged.
        reason: String,
    },
    /// A container cannot be changed.
    #[error("cannot change container {container}: {reason}")]
    Container {
        /// The names of its database and of itself.
        container: String,
        /// Why it cannot be changed.
        reason: String,
    },
    /// The regions cannot be changed.
    #[error("cannot change the regions of the account: {reason}")]
    Regions {
        /// The region, and why it cannot be changed.
        reason: String,
    },
    /// The data directory cannot be used.
    #[error("cannot store data: {reason}")]
    Storage {
        /// What failed, and what to do.
        reason: String,
    },
    /// The operating system cannot start a thread.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    /// The certificate cannot be generated.
    #[cfg(feature = "__tls")]
    #[error("cannot generate a certificate")]
    Certificate(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl EmulatorError {
    pub(crate) fn setting(setting: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self::Setting {
            setting: setting.into(),
            reason: reason.to_string(),
        }
    }

    pub(crate) fn storage(reason: impl std::fmt::Display) -> Self {
        Self::Storage {
            reason: reason.to_string(),
        }
    }
}

impl From<rusqlite::Error> for EmulatorError {
    fn from(error: rusqlite::Error) -> Self {
        Self::storage(error)
    }
}

impl From<OpenError> for EmulatorError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::InUse { directory } => Self::InUse { directory },
            OpenError::Newer {
                directory,
                found,
                known,
            } => Self::Newer {
                directory,
                found,
                known,
            },
            OpenError::Storage { reason } => Self::Storage { reason },
            OpenError::Sqlite(error) => error.into(),
        }
    }
}
