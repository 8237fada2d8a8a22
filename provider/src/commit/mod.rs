//! The end of a turn: one atomic batch, conditional on the lock, and its effects.

mod advance;
mod apply;
mod cancelled;
mod content;
mod end;
mod outgoing;
mod send;

pub(crate) use end::commit;
