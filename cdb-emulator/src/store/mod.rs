//! The store: SQLite, in memory or in a directory.
//!
//! Each container is a table, each document a row, and each index of the container's policy a
//! SQLite index. A query that the policy does not serve is therefore slow here too. In a directory,
//! a write is acknowledged when the log that holds it is on the disk (`synchronous=FULL`), so it
//! survives a killed process and a loss of power.

mod catalog;
mod container;
mod data_dir;
mod error;
mod handle;
mod index;
mod lanes;
pub(crate) mod offers;
pub(crate) mod partitions;
mod rebuild;
mod rows;
mod savepoint;
mod sqlite;
pub(crate) mod version;

pub(crate) use catalog::Database;
pub(crate) use container::Container;
pub(crate) use error::OpenError;
pub(crate) use handle::{CLOSE_TIMEOUT, Lane, Store};
pub(crate) use index::columns::{PathKeys, sql_value};
pub(crate) use index::policy::Policy;
pub(crate) use partitions::ranges::PhysicalRange;
pub(crate) use rows::documents::{Row, RowCondition, Scan, StoredDocument};
pub(crate) use rows::history::Change;
pub(crate) use rows::versions::{remove_versions, reset_versions};
pub(crate) use rusqlite::Connection;
pub(crate) use rusqlite::types::Value as SqlValue;
pub(crate) use savepoint::Savepoint;
