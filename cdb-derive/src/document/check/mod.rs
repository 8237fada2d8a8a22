//! The rules of a struct, one function per rule. [`list`] calls them all.

mod computed;
mod identity;
mod lease;
mod list;
mod marks;
mod paths;
mod search;
mod stored;
mod version;

pub(super) use list::{all, settings};
