//! The providers that are compared.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Peer {
    /// `cdb-provider`, this workspace.
    Ours,
    /// `duroxide-cdb`, on the same emulator.
    Existing,
    /// `duroxide-pg-opt`, on a PostgreSQL.
    Postgres,
}

impl Peer {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 3] = [Self::Ours, Self::Existing, Self::Postgres];

    /// The name on the command line.
    pub fn flag(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Existing => "existing",
            Self::Postgres => "pg",
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ours => "cdb",
            Self::Existing => "duroxide-cdb",
            Self::Postgres => "duroxide-pg-opt",
        })
    }
}

/// The address of a provider's store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Store {
    /// Which provider.
    pub peer: Peer,
    /// An account's endpoint, or the URL of a PostgreSQL.
    pub endpoint: String,
    /// The account's key, or the schema.
    pub key: String,
}
