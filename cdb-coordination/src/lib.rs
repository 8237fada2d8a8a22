#![doc = include_str!("../README.md")]
//! # Modules
//!
//! The root has where each part begins.
//!
//! | module | begins with | contents |
//! |---|---|---|
//! | [`lease`] | [`Leases`] | locks on documents, and writes under their fences |
//! | [`messaging`] | [`Messaging`] | opening a container for messages; messages that are retried or dead |
//! | [`message`] | [`Message`], [`MessageDocument`] | messages as they are sent, handled and stored |
//! | [`outbox`] | [`OutboxBatch`] | commits with messages, and their delivery |
//! | [`membership`] | [`Membership`] | members, and the slots of each |
//! | [`change_feed`] | [`ChangeProcessor`] | positions in the change feed, and who reads |
//! | [`repository`] | [`Repository`] | documents of one type, by key and by criteria |
//! | [`search`] | [`Rows`](search::Rows) | rows without the documents that cannot be read |
//! | [`retry`], [`timing`] | [`RetryPolicy`](retry::RetryPolicy) | pauses between attempts; refused durations |

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod change_feed;
mod endpoint;
pub mod lease;
pub mod membership;
pub mod message;
pub mod messaging;
pub mod outbox;
pub mod repository;
pub mod retry;
pub mod search;
mod telemetry;
pub mod timing;

pub use change_feed::processor::ChangeProcessor;
pub use endpoint::Received;
pub use lease::error::LeaseError;
pub use lease::explicit::Leases;
pub use membership::handle::Membership;
pub use message::document::MessageDocument;
pub use message::envelope::Message;
pub use message::handlers::HandlerError;
pub use messaging::builder::Messaging;
pub use messaging::dead_letter::DeadLetters;
pub use outbox::batch::OutboxBatch;
pub use repository::handle::Repository;
