//! How several processes share work on documents of Azure Cosmos DB.
//!
//! Every part rests on conditional writes alone: whoever reads decides nothing, whoever writes under an ETag or a condition
//! decides. The parts below spread load and keep order; correctness never depends on a clock or on who believes to be alive.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod inbox;
mod lease;
mod mail;
mod mailbox;
mod membership;
mod outbox;
mod rendezvous;
mod search;
mod slots;
mod store;
mod telemetry;
mod work;

pub use inbox::{Failed, Handled, Received};
pub use lease::{
    Kept, LeaseError, LeaseGuard, LeasedBatch, Leases, Lockable, fresh_mark, keep, lock, settle,
};
pub use mail::{Address, Mail, MailKey, Message, MessageId, Side};
pub use mailbox::{Mailbox, MailboxBuilder, MailboxConfig};
pub use membership::{
    MemberDocument, MemberRecord, Membership, MembershipConfig, MembershipView, Standing,
};
pub use outbox::{
    Attempt, Carrier, DeadLetter, DeadLetters, Dispatcher, Draft, Handover, Jitter, OutboxError,
    RetryPolicy, Undelivered, reconcile,
};
pub use rendezvous::{owner_of_slot, slots_of_member};
pub use slots::{InMemoryLeaseProvider, LeaseProvider, SlotSet};
pub use store::{Criteria, Store, StoreError};
pub use work::{
    ClaimedWork, EventFeed, EventHead, EventHeadKey, EventStore, Exhausted, FlushStrategy,
    Immediate, Interval, IntervalConfig, Lane, NewEvent, NewWork, Partitions, Processed, Receipt,
    Scoped, Settlement, StreamEvent, StreamEventKey, Work, WorkBatch, WorkConfig, WorkCoordinator,
    WorkEntry, WorkError, WorkMember, WorkMemberKey, WorkMessage, WorkMessageKey, WorkPartition,
    WorkPartitionKey, WorkReport, WorkRetry, WorkSettings, WorkSettingsKey, WorkStatus, WorkStream,
    WorkStreamKey,
};
