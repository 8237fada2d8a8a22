#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod change_feed;
mod handlers;
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
mod timing;
mod window;

pub use change_feed::{
    ChangeFeedState, ChangeHandlerError, ChangeProcessor, ChangeProcessorBuilder,
    ChangeProcessorConfig, FeedMember, FeedPart, FeedSource, PartDocument, PartFailure,
    PartProgress, ProcessorDocument, feed_parts, feed_progress, reset_feed, versions_progress,
};
pub use handlers::Failed;
#[doc(hidden)]
pub use handlers::{Delivered, Handlers};
pub use inbox::{Handled, Received};
pub use lease::{
    Fenced, FencedWrite, Found, KeepsLease, Kept, LeaseError, LeaseGuard, LeasedOperation, Leases,
    Lockable, confirm_lock, execute_fenced, execute_once, execute_proven, is_lost_race, keep, lock,
};
pub use membership::{
    FailedMember, MemberDocument, MemberRecord, Membership, MembershipConfig, MembershipView,
    Standing,
};
pub use message::{
    Address, DocumentMessage, Message, MessageContext, MessageDocument, MessageId, Side,
};
pub use messaging::{Messaging, MessagingBuilder, MessagingConfig, Retrying, RetryingMessage};
pub use outbox::{
    Attempt, DeadLetter, DeadLetters, Dispatcher, Handover, Jitter, OutboxBatch, OutboxError,
    PreparedBatch, Receiver, Relay, RetryPolicy, Undelivered, reconcile,
};
pub use rendezvous::{name_hash, owner_of_slot};
pub use search::Rows;
pub use slots::{InMemoryLeaseProvider, LeaseProvider, SlotSet};
pub use store::{Criteria, Store, StoreError, StoreOperation};
pub use timing::TimingError;
#[doc(hidden)]
pub use window::{Runs, Search, Windows};
