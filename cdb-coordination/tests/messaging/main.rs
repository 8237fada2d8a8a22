//! Outbox and inbox through the public interface.

#[path = "../backend/mod.rs"]
mod backend;
mod handler_names;
mod house;
mod publish;
mod refused;
mod retrying;
#[path = "../silence/mod.rs"]
mod silence;
mod silent;
#[path = "../skewed/mod.rs"]
mod skewed;
mod slow;
#[path = "../stored_message/mod.rs"]
mod stored_message;
mod streams;
mod unreadable;
