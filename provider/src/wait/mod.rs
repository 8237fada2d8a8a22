//! Waiting for work without asking for it all the time.

mod depth;
mod lobby;
mod pace;
mod share;
mod usual;
mod watch;

pub(crate) use depth::{Depth, Seen};
pub(crate) use lobby::{Candidate, Lobby, is_near};
pub(crate) use pace::Pace;
pub(crate) use share::{Queue, Share};
pub(crate) use usual::Usual;
pub(crate) use watch::Watch;
