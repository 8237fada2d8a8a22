//! The rules of a struct, one function per rule. [`list`] calls them all.

mod computed;
mod identity;
mod lease;
mod list;
mod paths;
mod search;
mod soft_delete;
mod stored;
mod version;
mod write_times;

pub(super) use list::{all, settings};
