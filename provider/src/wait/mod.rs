//! Waiting for work without asking for it all the time.

mod lobby;
mod pace;

pub(crate) use lobby::{Candidate, Lobby};
pub(crate) use pace::Pace;
