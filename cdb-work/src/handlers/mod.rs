//! Handlers of messages: their types, the tasks that run them, the start of all parts, and brokers.

pub(crate) mod bridge;
pub(crate) mod handler;
pub(crate) mod processor;
pub(crate) mod started;
