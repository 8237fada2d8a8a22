//! A live container, opened: its orchestrations, messages and dead letters, and what reads and changes them for
//! commands and dashboard alike.

pub(crate) mod dead_letter_id;
pub(crate) mod dead_letters;
mod holdings;
mod orchestrations;
pub(crate) mod paging;
pub(crate) mod restart;
pub(crate) mod work_item;

pub(crate) use holdings::{Holdings, known_model};
pub(crate) use orchestrations::{Orchestrations, limits_of_starts, payload_codec};
