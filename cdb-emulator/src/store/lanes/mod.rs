//! Where work runs: on the thread of the writer, or on connections that only read.

pub(super) mod readers;
pub(super) mod write_queue;
