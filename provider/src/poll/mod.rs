//! What the polls of both queues ask for, and when nobody needs to ask.

pub(crate) mod idle_probe;
mod slot_scope;
mod window;

pub(crate) use slot_scope::{PolledQueue, SlotScope};
pub(crate) use window::{PollWindow, Seen};
