//! The queries of both queues' polls, and the probe of idle queues.

pub(crate) mod idle_probe;
mod slot_scope;
mod window;

pub(crate) use slot_scope::{PollScope, PolledQueue, SlotScope};
pub(crate) use window::{PollResult, PollWindow};
