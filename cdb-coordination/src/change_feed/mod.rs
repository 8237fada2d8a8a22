//! Processes the change feed of a container in several processes: each physical partition is read by
//! one of them, and every change is handled at least once.
//!
//! The processes divide the parts of the feed by membership. The lease of a part fences the position
//! that its reader stores: a process that lost a lease cannot move it.

mod assignment;
mod documents;
pub(crate) mod processor;
mod progress;
mod reader;
mod settings;
mod status;
mod telemetry;

pub use documents::{
    ChangeFeedState, FeedMember, FeedSource, PartDocument, PartFailure, ProcessorDocument,
};
pub use processor::ChangeProcessorBuilder;
pub use progress::{PartProgress, feed_progress, reset_feed, versions_progress};
pub use settings::{ChangeHandlerError, ChangeProcessorConfig};
pub use status::{FeedPart, feed_parts};
