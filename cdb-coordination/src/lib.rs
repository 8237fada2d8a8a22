#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod change_feed;
mod endpoint;
mod lease;
mod membership;
mod message;
mod messaging;
mod outbox;
mod retry;
mod search;
mod store;
mod telemetry;
mod timing;

pub use change_feed::{
    ChangeFeedState, ChangeHandlerError, ChangeProcessor, ChangeProcessorBuilder,
    ChangeProcessorConfig, FeedMember, FeedPart, FeedSource, PartDocument, PartFailure,
    PartProgress, ProcessorDocument, feed_parts, feed_progress, reset_feed, versions_progress,
};
pub use endpoint::{Handled, MessagingConfig, Received};
pub use lease::{
    Fenced, FencedWrite, Found, KeepsLease, Kept, LeaseError, LeaseGuard, LeasedOperation, Leases,
    Lockable, confirm_lock, execute_fenced, execute_once, execute_proven, is_lost_race, keep, lock,
};
pub use membership::{
    FailedMember, InMemoryLeaseProvider, LeaseProvider, MemberDocument, MemberRecord, Membership,
    MembershipConfig, MembershipView, SlotSet, Standing, name_hash, owner_of_slot,
};
pub use message::{
    Address, DocumentMessage, Failed, Message, MessageContext, MessageDocument, MessageId, Side,
};
#[doc(hidden)]
pub use message::{Delivered, Handlers};
pub use messaging::{
    DeadLetter, DeadLetters, Messaging, MessagingBuilder, Retrying, RetryingMessage,
};
pub use outbox::{
    Dispatcher, Handover, OutboxBatch, OutboxError, PreparedBatch, Receiver, Relay, reconcile,
};
pub use retry::{Attempt, Jitter, RetryPolicy, Undelivered};
pub use search::Rows;
#[doc(hidden)]
pub use search::{Runs, Search, Windows};
pub use store::{Criteria, Store, StoreError, StoreOperation};
pub use timing::TimingError;
