//! What the requests to one container share.

mod ranges;
mod stages;
mod state;

pub(crate) use state::Channel;
