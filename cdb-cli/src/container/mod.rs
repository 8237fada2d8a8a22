//! A live container, opened: its orchestrations and failed messages, and what reads and changes them for
//! commands and dashboard alike.

pub(crate) mod begin_pauses;
mod holdings;
mod intents;
pub(crate) mod lock;
mod orchestrations;
pub(crate) mod restart;
pub(crate) mod work_item;

pub(crate) use holdings::{Holdings, known_model};
pub(crate) use orchestrations::{Orchestrations, payload_codec};
