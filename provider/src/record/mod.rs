//! Records what a duroxide runtime asks of a provider, and what it is told, so that a judge can
//! compare the history with the promises afterwards: `cargo xtask judge` (docs/testing.md).
//!
//! [`Recorded`] is a decorator of any provider. It must not know this crate's provider, and it
//! changes no call. A [`Recorder`] also takes what happens outside of duroxide: handled messages,
//! leases, transactions of documents.
//!
//! ```
//! use std::sync::Arc;
//!
//! use cdb_provider::CosmosDBProvider;
//! use cdb_provider::record::{LeaseUse, ListUse, Outcome, Recorded, Recorder};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let emulator = cdb_emulator::Emulator::start().await?; // in place of an account
//!     let provider = CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
//!     let folder = std::env::temp_dir().join(format!("recorded-{}", std::process::id()));
//!     let recorder = Recorder::in_folder(&folder, "shop")?;
//!     let provider = Arc::new(Recorded::new(Arc::new(provider), &recorder));
//!     duroxide::Client::new(provider).enqueue_event("order-1", "paid", "7").await?;
//!
//!     recorder.message("warehouse", "order-1/reserve").end(Outcome::Ok); // around the effect
//!     recorder.entry("order-1", 1).end(Outcome::Ok);
//!     recorder.lease("order-1", LeaseUse::Acquire).acquired(7);
//!     recorder.lease("order-1", LeaseUse::Write(7)).end(Outcome::Unknown);
//!     let uses = [ListUse::Append("basket-1", "pen"), ListUse::Read("basket-2")];
//!     recorder.transaction(&uses).read(&[vec!["ink".to_owned()]]);
//!
//!     recorder.rest(); // all that was accepted has been handled
//!     recorder.finish()?; // fails if a line could not be written
//!     std::fs::remove_dir_all(folder)?;
//!     Ok(())
//! }
//! ```
//!
//! [`Recorded`] decorates every provider of duroxide. Without [`Recorder::rest`], the judge applies no rule
//! of completeness. A test that changes instances by other means than duroxide notes them with
//! [`Recorder::changed`], instances that keep waiting with [`Recorder::waits`], and a container that deletes
//! ended instances with [`Recorder::retention`].
//!
//! # The file
//!
//! A line is a JSON object, written before the call goes on. All have `process`, `mono` (microseconds of a
//! monotonic clock) and `wall` (milliseconds since 1970). Payloads are not encrypted; on Unix, only the owner
//! may read the file. A text of more than 4 KiB is stored as `{"bytes": …, "hash": …}`, with the FNV-1a hash
//! of its JSON.
//!
//! | `kind` | fields |
//! |---|---|
//! | `begin` | `format` (1), `clock`: files with one clock compare `mono` |
//! | `call` | `call` (its number in the file), `op`, `args` |
//! | `answer` | `call`; `outcome`: `ok`, `definite` (a permanent error), `unknown` (a retryable one), `none` (dropped); `result` or `error` |
//! | `note` | `note`: `rest`, `waiting`, `changed`, `retention`; `instance` |
//!
//! | `op` | `args` | `result` |
//! |---|---|---|
//! | `fetch_orchestration_item` | | `token`, `instance`, `execution_id`, `history` (`events`, `hash`, `last`), `messages`, `damaged` |
//! | `ack_orchestration_item` | `token`, `execution_id`, `events` with their `hash`, `activities`, `messages` | |
//! | `fetch_work_item` | | `item`, `token` |
//! | `ack_work_item` | `token`, `completion` | |
//! | `abandon_orchestration_item`, `renew_orchestration_item_lock`, `abandon_work_item`, `renew_work_item_lock` | `token` | |
//! | `enqueue_for_orchestrator`, `enqueue_for_worker` | `item` | |
//! | `read`, `read_with_execution` | `instance`, `execution_id` | `events`, `hash`, `last` |
//! | `get_instance_info` | `instance` | `status`, `execution_id`, `output` |
//! | `append_with_execution` | `instance`, `execution_id` | |
//! | `delete` | `instances`, `null` if a filter chooses them | |
//! | `message` | `receiver`, `id` | |
//! | `entry` | `stream`, `number` | |
//! | `lease-acquire` | `document` | `token` |
//! | `lease-write`, `lease-release` | `document`, `token` | |
//! | `transaction` | `{"append": [document, value]}`, `{"read": document}` | the read lists |

mod admin;
mod effects;
mod file;
mod provider;
mod text;

pub use effects::{LeaseUse, ListUse, RecordedEffect};
pub use file::{Outcome, Recorder};
pub use provider::Recorded;
