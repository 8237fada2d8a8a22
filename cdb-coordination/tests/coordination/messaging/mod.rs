//! Outbox and inbox through the public interface.

mod handler_names;
mod house;
mod publish;
mod refused;
mod retrying;
mod silent;
mod slow;
mod streams;
mod unreadable;
