//! The `cdb` command, as a library: a container of your own gets the same commands in three lines.
//!
//! ```no_run
//! use cdb_model::{Container, Document};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Document, Serialize, Deserialize)]
//! #[document(type = "order", id = "order:{number}")]
//! pub struct Order {
//!     #[document(partition_key)]
//!     pub customer: String,
//!     pub number: u64,
//!     #[document(index)]
//!     pub status: String,
//! }
//!
//! #[derive(Container)]
//! pub enum Shop {
//!     Order(Order),
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     cdb_cli::run::<Shop>("shop")
//! }
//! ```
//!
//! `shop policy check` then compares the live container with `Shop`. Commands about orchestrations
//! need a container that extends the provider's. [`Exit`] lists the exit codes. With `--json` every
//! answer is one JSON value.
//!
//! # Features
//!
//! - `dashboard` (on by default): `cdb dashboard`, a local web page, served with axum.
//! - `mcp` (on by default): `cdb mcp`, the commands as tools of the Model Context Protocol.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod command;
mod connection;
mod container;
#[cfg(feature = "dashboard")]
mod dashboard;
mod doctor;
mod exit;
#[cfg(feature = "mcp")]
mod mcp;
mod model;
mod output;
mod program;
mod view;

use std::process::ExitCode;

use cdb_model::Container;

/// Compiles the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[doc(hidden)]
pub use doctor::account;
pub use exit::Exit;
pub use program::Cli;

/// Runs the command for a container of this type and name with the arguments of this process.
///
/// ```no_run
/// use cdb_provider::documents::Durable;
///
/// fn main() -> std::process::ExitCode {
///     cdb_cli::run::<Durable>("duroxide") // the whole `main` of `cdb`
/// }
/// ```
pub fn run<C: Container>(container: impl Into<String>) -> ExitCode {
    Cli::<C>::new(container).run()
}
