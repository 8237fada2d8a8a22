//! The messages that were not delivered or whose handlers failed: those that are retried, and dead ones,
//! which wait for an operator.

mod failed;
mod kind;
mod name;
mod open;
mod paging;
mod partitions;
mod row;
mod source;
mod work;

pub(crate) use failed::FailedMessages;
pub(crate) use kind::{Action, Filter, List, Outcome, Source, State, Step};
pub(crate) use name::MessageName;
pub(super) use open::open;
pub(crate) use paging::{MessagePage, PageStart};
pub(crate) use row::{MessageDetail, MessageRow};
pub(crate) use source::MessageSource;
pub(crate) use work::OrderedWork;
