//! The polls that fill the local queues.
//!
//! A poll queries each physical partition separately, so that one that does not answer delays only
//! its own items. With several partitions, a probe first finds those with due items.

mod due;
mod fetch;
mod polled;
pub(crate) mod probe;
pub(crate) mod run;
mod search;
mod share;

pub(crate) use due::{Due, LastProbe};
pub(crate) use fetch::Fetch;
pub(crate) use polled::{Noted, Poll, Polled};
pub(crate) use search::{DueSearch, answered};
pub(crate) use share::{Part, PolledQueue, Share, Shares};
