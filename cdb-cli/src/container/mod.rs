//! A live container, opened: its orchestrations and failed messages, and what reads and changes them for
//! commands and dashboard alike.

mod holdings;
mod intents;
mod orchestrations;
pub(crate) mod restart;
pub(crate) mod work_item;

pub(crate) use holdings::{Holdings, known_model};
pub(crate) use orchestrations::{Orchestrations, limits_of_starts, payload_codec};
