//! A server that speaks the REST protocol of Azure Cosmos DB (NoSQL), for development and tests
//! without Docker.
//!
//! It shows a program's mistakes before Azure does: it checks signatures, enforces the rules for
//! ids, sizes, batches and ETags, rejects what the gateway rejects, and answers queries from the
//! indexes of the container's policy.
//!
//! ```
//! use cdb_emulator::{Emulator, EmulatorError};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), EmulatorError> {
//!     let emulator = Emulator::start().await?;
//!     println!("COSMOS_ENDPOINT={} COSMOS_KEY={}", emulator.endpoint(), emulator.key());
//!     emulator.stop().await;
//!     Ok(())
//! }
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
#![doc = ""]
#![doc = include_str!("../docs/rules.md")]
#![doc = include_str!("../docs/queries.md")]
#![doc = include_str!("../docs/charges.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod account;
mod explorer;
mod fault;
mod op;
mod plan;
mod protocol;
mod rules;
mod server;
mod sql;
mod store;
mod time;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use account::{
    Consistency, DataRole, EmulatorError, Failover, IndexBuild, ReplicaLag, RequestLog, Settings,
    UniqueKeyAnswer, WELL_KNOWN_KEY,
};
pub use fault::{Effect, Fault, Latency};
pub use protocol::OperationKind;
#[cfg(feature = "bin")]
pub use server::EmulatorCommand;
pub use server::{ConnectionBroken, Emulator};

#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub use op::fuzzing::{fuzz_batch, fuzz_binary_json, fuzz_partition_key, fuzz_query};
