//! The stored form of documents: writing, reading, versions, and what cannot be read.

pub(crate) mod codec;
mod content;
mod evolution;
mod unreadable;
pub mod upcast;
mod upgrade;
mod write_times;

pub use codec::{Encoded, decode, decode_any, encode};
pub(crate) use codec::{decode_value, is_ttl};
pub use content::is_same;
pub use evolution::UnknownFields;
pub use unreadable::{Location, Unreadable, partition_key_of};
pub use upgrade::{Upgraded, upgrade};
pub(crate) use write_times::{LATER, TimeSlots};
