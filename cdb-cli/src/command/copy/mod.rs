//! `cdb export` and `cdb import`: documents as JSON lines.

mod document;
mod export;
mod exported;
mod import;
mod instances;

pub(crate) use export::{ExportArgs, run as export};
pub(crate) use import::{ImportArgs, run as import};
