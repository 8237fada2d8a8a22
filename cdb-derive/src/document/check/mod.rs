//! What a struct must not do, one function per refusal. [`list`] names them all.

mod identity;
mod lease;
mod list;
mod paths;
mod stored;

pub(super) use list::{all, settings};
