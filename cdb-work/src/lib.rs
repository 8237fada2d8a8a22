//! Ordered work: messages in streams, handled in order by several processes, written together. And
//! an event store.
//!
//! Every stream belongs to a virtual partition, and every partition to one coordinator at a time.
//! The virtual partition is also the logical partition in the store. So new messages, reports and
//! the extension of a lease travel in one transactional batch, which the store carries out only if
//! the fence and the order are right (`plan.rs`).
//!
//! ```
//! use std::time::Duration;
//! use cdb_work::NewWork;
//! # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
//! # setup::with_work(async |work| {
//!
//! let now = work.immediate();
//! now.store(NewWork::inbox("order-7", "paid-1").with_body("paid", "{}")).await?;
//! let claimed = work.claim(1, Duration::from_secs(5)).await.pop().expect("the message");
//! now.report(claimed.done()).await?;
//! work.shutdown().await?;
//! # Ok(()) }).unwrap();
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod attempt;
mod bridge;
mod claim;
mod config;
mod coordinator;
mod delivery;
mod documents;
mod entry;
mod error;
mod event_archive;
mod event_feed;
mod event_read;
mod event_store;
mod exchange;
mod flush;
mod forget;
mod handlers;
mod inner;
mod interval;
mod new_work;
mod operate;
mod ownership;
mod partitions;
mod plan;
mod poll;
mod poller;
mod processor;
mod queue;
mod renewal;
mod send;
mod settlement;
mod share;
mod state;
mod status;
mod strategy;
mod stream;
mod stream_order;
mod telemetry;
mod timing;
mod unreadable;

pub use bridge::Broker;
pub use config::{Exhausted, WorkConfig, WorkRetry};
pub use coordinator::{Processed, WorkBatch, WorkCoordinator};
pub use delivery::Delivery;
pub use documents::{
    EventSnapshot, Lane, StreamEvent, Work, WorkMember, WorkMessage, WorkPartition, WorkStream,
};
pub use entry::{ClaimedWork, WorkEntry, WorkReport};
pub use error::WorkError;
pub use event_archive::{ContainerArchive, EventArchive};
pub use event_feed::{EventFeed, FeedEvent};
pub use event_store::{EventStore, NewEvent};
pub use handlers::{Completed, WorkContext, WorkFailure, WorkHandlers};
pub use interval::{Interval, IntervalConfig};
pub use new_work::NewWork;
pub use partitions::Partitions;
pub use processor::{RunConfig, WorkRun};
pub use settlement::{Receipt, Settlement};
pub use status::WorkStatus;
pub use strategy::{FlushStrategy, Immediate, Scoped};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
enum Readme {}
