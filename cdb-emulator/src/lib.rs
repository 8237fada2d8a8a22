//! A server that speaks the REST protocol of Azure Cosmos DB (NoSQL), for development and tests
//! without Docker.
//!
//! It shows a program's mistakes before Azure does: it checks signatures, enforces the rules for
//! ids, sizes, batches and ETags, rejects what the gateway rejects, and answers queries from the
//! indexes of the container's policy.
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
//! - `bin` (default): the command `cdb-emulator`, and `EmulatorCommand` for the commands of other
//!   programs. A program that embeds the emulator disables it with `default-features = false`,
//!   which also removes clap.
//! - `tls` (enabled by `bin`): [`Settings::tls`], HTTPS with a certificate that is generated
//!   at the start.
//! - `fuzzing`: entry points of the fuzz targets, not for programs.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod admin;
mod admission;
mod auth;
mod binary_json;
mod charge;
mod clock;
#[cfg(feature = "bin")]
mod command;
mod emulator;
mod emulator_error;
mod entra;
mod epk;
mod error;
mod execute;
mod explorer;
mod fault;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzing;
mod handle;
mod http_server;

mod in_process;
mod index_build;
mod index_terms;
mod listen;
mod local;
mod metadata_budget;
mod millis;
mod observe;
mod op;
mod plan;
mod regions;
mod replicas;
mod request;
mod response;
mod route;
mod rules;
mod server_state;
mod service;
mod session;
mod settings;
mod sql;
mod start;
mod store;
mod throughput;
mod tls;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(feature = "bin")]
pub use command::EmulatorCommand;
pub use emulator::Emulator;
pub use emulator_error::EmulatorError;
pub use entra::DataRole;
pub use fault::{Effect, Fault, Latency};
pub use in_process::ConnectionBroken;
pub use index_build::IndexBuild;
pub use observe::{OperationKind, RequestLog};
pub use regions::Failover;
pub use replicas::ReplicaLag;
pub use session::Consistency;
pub use settings::{Settings, UniqueKeyAnswer};

#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub use fuzzing::{fuzz_batch, fuzz_binary_json, fuzz_partition_key, fuzz_query};

/// The account key of all Cosmos DB emulators. It is public and protects nothing.
pub const WELL_KNOWN_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
