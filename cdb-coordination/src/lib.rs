//! How several processes share work on documents of Azure Cosmos DB.
//!
//! Every part rests on conditional writes alone: whoever reads decides nothing, whoever writes under an ETag or a condition
//! decides. The parts below spread load and keep order; correctness never depends on a clock or on who believes to be alive.

mod lease;
mod membership;
mod rendezvous;
mod slots;
mod store;
mod work;

pub use lease::{
    Kept, LeaseError, LeaseGuard, LeasedBatch, Leases, Lockable, fresh_mark, keep, lock, settle,
};
pub use membership::{
    MemberDocument, MemberRecord, Membership, MembershipConfig, MembershipView, Standing,
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
