//! The work coordinator: messages in streams, handled in order by several processes, written
//! together.
//!
//! Every stream belongs to a virtual partition, and every partition to one coordinator at a time.
//! The virtual partition is also the logical partition in the store. So new messages, reports and
//! the extension of a lease travel in one transactional batch, which the store carries out only if
//! the fence and the order are right (`plan.rs`).

mod claim;
mod config;
mod coordinator;
mod documents;
mod entry;
mod error;
mod event_store;
mod exchange;
mod flush;
mod forget;
mod inner;
mod interval;
mod new_work;
mod operate;
mod ownership;
mod partitions;
mod plan;
mod poll;
mod poller;
mod queue;
mod settlement;
mod state;
mod status;
mod strategy;
mod stream_order;
mod telemetry;
mod unreadable;

pub use config::{Exhausted, WorkConfig, WorkRetry};
pub use coordinator::{Processed, WorkBatch, WorkCoordinator};
pub use documents::{Lane, StreamEvent, Work, WorkMember, WorkMessage, WorkPartition, WorkStream};
pub use entry::{ClaimedWork, WorkEntry, WorkReport};
pub use error::WorkError;
pub use event_store::{EventFeed, EventStore, NewEvent};
pub use interval::{Interval, IntervalConfig};
pub use new_work::NewWork;
pub use partitions::Partitions;
pub use settlement::{Receipt, Settlement};
pub use status::WorkStatus;
pub use strategy::{FlushStrategy, Immediate, Scoped};
