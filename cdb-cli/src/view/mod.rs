//! The answers of the commands and of the dashboard: typed queries that return plain structs, which
//! are shown as text or serialized as JSON.

pub(crate) mod backlog;
pub(crate) mod change_feed;
pub(crate) mod dead_letters;
pub(crate) mod detail;
pub(crate) mod history;
pub(crate) mod instances;
pub(crate) mod limited_keys;
pub(crate) mod limits;
pub(crate) mod members;
pub(crate) mod ordered_work;
pub(crate) mod outbox;
#[cfg(feature = "dashboard")]
pub(crate) mod overview;
pub(crate) mod queued_activities;
pub(crate) mod queues;
pub(crate) mod retrying;
pub(crate) mod running;
pub(crate) mod standstill;
pub(crate) mod state;
pub(crate) mod tree;
pub(crate) mod unstarted;
pub(crate) mod values;
pub(crate) mod waits;
