//! How several processes share work on documents of Azure Cosmos DB.
//!
//! Every part rests on conditional writes alone: whoever reads decides nothing, whoever writes under an ETag or a condition
//! decides. The parts below spread load and keep order; correctness never depends on a clock or on who believes to be alive.

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
mod work;

pub use inbox::{Failed, Handled, Received};
pub use lease::{
    Fenced, FencedWrite, Found, Kept, LeaseError, LeaseGuard, LeasedBatch, Leases, Lockable, Proof,
    execute_fenced, execute_proven, keep, lock, settle,
};
pub use membership::{
    MemberDocument, MemberRecord, Membership, MembershipConfig, MembershipView, Standing,
};
pub use message::{Address, Message, MessageDocument, MessageId, Side};
pub use messaging::{Messaging, MessagingBuilder, MessagingConfig};
pub use outbox::{
    Attempt, DeadLetter, DeadLetters, Dispatcher, Handover, Jitter, OutboxBatch, OutboxError,
    Relay, RetryPolicy, Undelivered, reconcile,
};
pub use rendezvous::owner_of_slot;
pub use slots::{InMemoryLeaseProvider, LeaseProvider, SlotSet};
pub use store::{Criteria, Store, StoreError};
pub use work::{
    ClaimedWork, EventFeed, EventStore, Exhausted, FlushStrategy, Immediate, Interval,
    IntervalConfig, Lane, NewEvent, NewWork, Partitions, Processed, Receipt, Scoped, Settlement,
    StreamEvent, Work, WorkBatch, WorkConfig, WorkCoordinator, WorkEntry, WorkError, WorkMember,
    WorkMessage, WorkPartition, WorkReport, WorkRetry, WorkStatus, WorkStream,
};

/// The README's example, run with those of the pages.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
enum Readme {}
