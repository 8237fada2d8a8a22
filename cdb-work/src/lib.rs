//! Ordered work: messages in streams, handled in order by several processes, written together. And
//! an event store.
//!
//! Every stream belongs to a virtual partition, and every partition to one coordinator at a time.
//! The virtual partition is also the logical partition in the store. So new messages, reports and
//! the extension of a lease travel in one transactional batch, which the store carries out only if
//! the fence and the order are right (`memory/plan.rs`).
//!
//! ```
//! use std::time::Duration;
//!
//! use cdb_work::{NewWork, WorkCoordinator};
//!
//! async fn handle_one(work: &WorkCoordinator) -> Result<(), Box<dyn std::error::Error>> {
//!     let now = work.immediate();
//!     now.store(NewWork::inbox("order-7", "paid-1").with_body("paid", "{}")).await?;
//!     for claimed in work.claim(1, Duration::from_secs(5)).await {
//!         now.report(claimed.done()).await?;
//!     }
//!     Ok(())
//! }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod config;
mod coordinator;
mod error;
mod events;
mod flush;
mod handlers;
mod memory;
mod partition;
mod streams;
mod telemetry;
mod timing;

pub use config::{Exhausted, WorkConfig};
pub use coordinator::admin::{WorkAdmin, WorkCounts};
pub use coordinator::handle::{Processed, WorkBatch, WorkCoordinator};
pub use error::WorkError;
pub use events::archive::{ContainerArchive, EventArchive};
pub use events::feed::{EventFeed, FeedEvent};
pub use events::store::{EventStore, NewEvent};
pub use flush::entry::{ClaimedWork, WorkEntry, WorkReport};
pub use flush::interval::{Interval, IntervalConfig};
pub use flush::strategy::{FlushStrategy, Immediate, Scoped};
pub use handlers::bridge::Broker;
pub use handlers::handler::{Completed, WorkContext, WorkFailure, WorkHandlers};
pub use handlers::processor::{RunConfig, WorkRun};
pub use handlers::started::StartedWork;
pub use memory::settlement::{Receipt, Settlement};
pub use streams::delivery::DeliveryReason;
pub use streams::documents::{
    EventSnapshot, Lane, StreamEvent, Work, WorkMember, WorkMessage, WorkMessageKey, WorkPartition,
    WorkStream,
};
pub use streams::new_work::NewWork;
pub use streams::partitions::Partitions;
pub use streams::status::WorkStatus;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
enum Readme {}
