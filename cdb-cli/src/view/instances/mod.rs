//! Instances: pages of them, and each in detail.

pub(crate) mod attribute_filter;
pub(crate) mod detail;
pub(crate) mod history;
#[cfg(feature = "dashboard")]
pub(crate) mod overview;
mod page;
mod queued_activities;
mod standstill;
mod state;
pub(crate) mod tree;
mod values;
pub(crate) mod waits;

#[cfg(feature = "dashboard")]
pub(crate) use page::Page;
pub(crate) use page::{ListFilter, RUNNING, Row, UnindexedFilter, list, list_all, list_with_waits};
