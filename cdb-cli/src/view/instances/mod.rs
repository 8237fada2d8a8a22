//! Instances: pages of them, and each in detail.

pub(crate) mod attribute_filter;
pub(crate) mod detail;
pub(crate) mod history;
mod page;
mod queued_activities;
mod row;
mod standstill;
pub(crate) mod tree;
pub(crate) mod waits;

#[cfg(feature = "dashboard")]
pub(crate) use page::Page;
pub(crate) use page::{RUNNING, list, list_all, list_with_waits};
pub(crate) use row::Row;
