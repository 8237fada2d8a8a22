//! Chaos: several runtime processes on one store, while processes are killed and paused, the store
//! is restarted, split and throttled, and requests fail. Afterwards every history and every
//! business document is read and judged.
//!
//! One program has three roles: driver, runtime and store. The driver starts the other two as
//! processes, so that they can be killed. The program chooses the provider under test
//! ([`Subject`]): the binary of this crate uses ours, programs in other workspaces use others.

mod check;
mod clock;
mod clocks;
mod command;
mod drive;
mod effects;
mod ledger;
mod mix;
mod monkey;
mod play;
mod process;
mod random;
mod recovery;
mod report;
mod runtime;
mod site;
mod store;
mod subject;
mod wire;
mod workload;

pub use check::{Verdict, check};
pub use clocks::timers;
pub use command::command;
pub use drive::{Run, run};
pub use effects::{Documents, messaging, transactional};
pub use ledger::{Booked, Books, Entry, Ledger};
pub use mix::{MIXES, Mix};
pub use play::{Ended, follow};
pub use random::next_random;
pub use recovery::{Recovery, recovery};
pub use report::Row;
pub use runtime::{CONCURRENCY, CONTAINER, DATABASE, LOCK, RuntimeArgs, keep_trying};
pub use site::Actors;
pub use subject::{Opened, Opening, Role, Subject};
pub use workload::{Job, KINDS, Kind, LONG_KINDS, activities, orchestrations};
