//! The queues, the runtimes that share them, and the limits that hold their activities back.

pub(crate) mod backlog;
pub(crate) mod limited_keys;
pub(crate) mod limits;
pub(crate) mod members;
pub(crate) mod running;
pub(crate) mod unstarted;
