//! Coordinates processes that share documents of Azure Cosmos DB: leases, outbox and inbox, membership.
//!
//! Correctness rests on conditional writes alone. A read is a hint; a write under an ETag or a
//! condition decides. Clocks and heartbeats spread load. They never decide who owns a document.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod inbox;
mod lease;
mod membership;
mod message;
mod messaging;
mod outbox;
mod rendezvous;
mod search;
mod slots;
mod store;
mod telemetry;

pub use inbox::{Failed, Handled, Received};
pub use lease::{
    Fenced, FencedWrite, Found, Kept, LeaseError, LeaseGuard, LeasedBatch, Leases, Lockable, Proof,
    confirm_lock, execute_fenced, execute_once, execute_proven, is_lost_race, keep, lock,
};
pub use membership::{
    FailedMember, MemberDocument, MemberRecord, Membership, MembershipConfig, MembershipView,
    Standing,
};
pub use message::{Address, Message, MessageContext, MessageDocument, MessageId, Side};
pub use messaging::{Messaging, MessagingBuilder, MessagingConfig};
pub use outbox::{
    Attempt, DeadLetter, DeadLetters, Dispatcher, Handover, Jitter, OutboxBatch, OutboxError,
    Relay, RetryPolicy, Undelivered, reconcile,
};
pub use rendezvous::{name_hash, owner_of_slot};
pub use search::Rows;
pub use slots::{InMemoryLeaseProvider, LeaseProvider, SlotSet};
pub use store::{Criteria, Store, StoreError};

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
enum Readme {}
