//! Chaos: several runtime processes on one store, while processes are killed and paused, the store is restarted, split and
//! throttled, and requests fail. Afterwards every history and every business document is read and judged.
//!
//! One program plays three parts: the driver, a runtime, and the store. The driver starts the other two as processes, so
//! that they can be killed. Another program can play the runtime (`--runtime`), to compare providers.

mod check;
mod drive;
mod ledger;
mod mix;
mod monkey;
mod process;
mod random;
mod recovery;
mod report;
mod runtime;
mod store;
mod wire;
mod workload;

pub use check::Verdict;
pub use drive::{Run, run};
pub use mix::{MIXES, Mix};
pub use process::Programs;
pub use recovery::{Recovery, recovery};
pub use report::{Row, table, write_docs};
pub use runtime::{LOCK, RuntimeArgs, keep_trying, open, serve};
pub use store::{StoreArgs, keep};
