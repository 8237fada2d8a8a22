//! A server that speaks the REST protocol of Azure Cosmos DB (NoSQL), for development and tests without Docker.
//!
//! It exists to tell the truth about a program before Azure does: it checks signatures, enforces the rules for ids, sizes,
//! batches and ETags, refuses what the gateway refuses, and answers from the indexes of the container's policy.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), cdb_emulator::EmulatorError> {
//! let emulator = cdb_emulator::Emulator::start().await?;
//! println!("COSMOS_ENDPOINT={} COSMOS_KEY={}", emulator.endpoint(), emulator.key());
//! # emulator.stop().await; Ok(()) }
//! ```
//!
//! # Features
//!
//! - `bin` (on by default): the command `cdb-emulator` and `EmulatorCommand`, its options for other commands. A program that
//!   embeds the emulator leaves it out (`default-features = false`), and clap with it.
//! - `tls` (with `bin`): `EmulatorBuilder::tls`, HTTPS with a certificate made at the start.
//! - `fuzzing`: entrances of the fuzz targets, nothing for programs.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod admin;
mod admission;
mod auth;
mod binary_json;
mod builder;
mod charge;
#[cfg(feature = "bin")]
mod command;
mod emulator;
mod entra;
mod epk;
mod error;
mod explorer;
mod fault;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzing;
mod http_front;
mod index_terms;
mod index_use;
mod local;
mod observe;
mod op;
mod plan;
mod query_plan;
mod route;
mod rules;
mod service;
mod session;
mod sql;
mod store;
mod throughput;
mod tls;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use builder::{EmulatorBuilder, EmulatorError};
#[cfg(feature = "bin")]
pub use command::EmulatorCommand;
pub use emulator::Emulator;
pub use entra::DataRole;
pub use fault::{Effect, Fault, FaultPlan, Latency};
pub use observe::{OperationKind, RequestLog};

#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub use fuzzing::{fuzz_batch, fuzz_binary_json, fuzz_partition_key, fuzz_query};

/// The key that every emulator of Cosmos DB uses. It is published and protects nothing.
pub const WELL_KNOWN_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
