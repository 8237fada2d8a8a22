//! Handlers of messages: their types, the tasks that run them, and brokers.

pub(crate) mod bridge;
pub(crate) mod handler;
pub(crate) mod processor;
