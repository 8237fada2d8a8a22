//! What this process knows of the physical partitions of a container: their ranges, session tokens and health.

mod epk;
mod health;
mod ranges;
mod session_token;
mod shared_call;

pub(crate) use epk::EpkPart;
pub use health::{Behind, PartitionHealth};
pub(crate) use health::{
    Class, GoesOn, RangeEndpoints, Watch, goes_on, leave_write, refused_since, watch_stall,
};
pub use ranges::PhysicalPartitionId;
pub(crate) use ranges::{LISTING_INTERVAL, ListedRange, RangeCache, RangeMap};
pub(crate) use session_token::{SessionScope, SessionTokens};
pub use shared_call::SharedCall;
