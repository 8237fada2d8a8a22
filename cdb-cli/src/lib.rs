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
//! #[container(partition_key = "/customer")]
//! pub enum Shop {
//!     Order(Order),
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     cdb_cli::run::<Shop>()
//! }
//! ```
//!
//! `shop policy check` then compares the live container with `Shop`. Commands about orchestrations work when the container
//! extends the provider's. Exit codes are in [`Exit`]; `--json` makes every answer one JSON value.
//!
//! # Features
//!
//! - `dashboard` (on by default): `cdb dashboard`, a local web page; without it axum is not compiled.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod args;
mod causes;
mod cli;
mod command;
mod confirm;
mod connection;
#[cfg(feature = "dashboard")]
mod dashboard;
mod dead_letter_id;
mod dead_letters;
mod doctor;
mod exit;
mod format;
mod message_dead_letters;
mod model;
mod orchestrations;
mod output;
mod remedy;
mod time;
mod token;
mod view;
mod wait_for_port;

use std::process::ExitCode;

use cdb_model::Container;

/// The README's examples, compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use cli::Cli;
pub use exit::Exit;

/// Runs the command on this process's arguments, for the container `C`.
///
/// ```no_run
/// use cdb_provider::documents::Durable;
///
/// fn main() -> std::process::ExitCode {
///     cdb_cli::run::<Durable>() // all that `cdb` itself is
/// }
/// ```
pub fn run<C: Container>() -> ExitCode {
    Cli::<C>::new().run()
}
