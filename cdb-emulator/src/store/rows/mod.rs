//! The rows of a container: its documents, their former versions, their expiry and statistics.

pub(super) mod documents;
mod expiry;
pub(super) mod history;
mod statistics;
pub(super) mod versions;
