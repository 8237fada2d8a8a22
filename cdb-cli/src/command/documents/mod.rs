//! `cdb export`, `cdb import` and `cdb migrate`: documents as JSON lines, and in their newest version.

mod document;
mod export;
mod exported;
mod import;
mod instances;
mod migrate;
mod whole_file;

pub(crate) use export::{ExportArgs, run as export};
pub(crate) use import::{ImportArgs, run as import};
pub(crate) use migrate::{MigrateArgs, run as migrate};
