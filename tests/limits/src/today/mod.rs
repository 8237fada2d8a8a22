//! The algorithm of the provider as of 1c5fb933, transcribed without its I/O: its modules are private to the provider.
//!
//! Left out: prelocks of a commit, which ignore the order of ranks (`handing_out.rs`, C1).

mod limiter;
mod permits;
mod runtime;
mod share;

pub(crate) use runtime::Today;
