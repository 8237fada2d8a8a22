//! A bridge between ordered work and NATS JetStream, and a receiver that records what arrives.
//!
//! Two containers, `orders` and `warehouse`. A process per container: the one on `orders` publishes
//! its outbox, the one on `warehouse` stores what it receives in its inbox and handles it. Both are
//! the program `cdb-bridge`, which can end itself at the worst moment.

mod nats;
mod shop;

pub use nats::{Fatal, NatsBroker, stream_of};
pub use shop::{Failure, Shop, Tally, coordinator, database, handlers, partitions};
