//! Waiting for work without asking for it all the time.

mod depth;
mod share;
mod watch;

pub(crate) use depth::{Depth, Seen};
pub(crate) use share::{Queue, Share};
pub(crate) use watch::Watch;
