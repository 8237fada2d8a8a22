//! Short descriptions of queued messages.

pub(crate) use cdb_provider::observe::describe_message as describe;
