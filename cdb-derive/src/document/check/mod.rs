//! The rules of a struct, one function per rule. [`list`] calls them all.

mod computed;
mod identity;
mod list;
mod paths;
mod roles;
mod search;
mod stored;
mod version;

pub(super) use list::{all, partition_key};
