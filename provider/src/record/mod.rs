//! Records what a duroxide runtime asks of a provider, and what it is told, so that a judge can
//! compare the history with the promises afterwards: `cargo xtask judge`, docs/testing.md.
//!
//! [`Recorded`] is a decorator of any provider. It must not know this crate's provider, and it
//! changes no call. A [`Recorder`] also takes what happens outside of duroxide: handled messages,
//! leases, transactions of documents.
//!
//! ```
//! use std::sync::Arc;
//!
//! use cdb_provider::record::{Outcome, Recorded, Recorder};
//! use duroxide::Client;
//! # use cdb_provider::CosmosDBProvider;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let emulator = cdb_emulator::Emulator::start().await?;
//! # let provider = CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
//! # let folder = std::env::temp_dir().join(format!("record-{}", std::process::id()));
//! # let folder = folder.as_path();
//! let recorder = Recorder::in_folder(folder, "shop")?; // a file for each process
//! let provider = Arc::new(Recorded::new(Arc::new(provider), &recorder));
//! let client = Client::new(provider); // or a runtime
//! client.enqueue_event("order-1", "paid", "7 euros").await?;
//!
//! let handled = recorder.message("warehouse", "order-1/reserve");
//! // … the effect of the message
//! handled.end(Outcome::Ok);
//!
//! recorder.finish()?; // fails if a line could not be written
//! // cargo xtask judge <folder>/*.jsonl
//! # let file = std::fs::read_dir(folder)?.next().expect("a file")?.path();
//! # let text = std::fs::read_to_string(file)?;
//! # std::fs::remove_dir_all(folder)?;
//! # assert_eq!(text.lines().count(), 5, "{text}"); // the process, two calls, two answers
//! # assert!(text.contains(r#""data":"7 euros""#), "{text}");
//! # Ok(())
//! # }
//! ```

mod admin;
mod effects;
mod file;
mod provider;
mod text;

pub use effects::{LeaseUse, ListUse, RecordedEffect};
pub use file::{Outcome, Recorder};
pub use provider::Recorded;
