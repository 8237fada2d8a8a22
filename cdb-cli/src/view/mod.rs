//! The answers of the commands and of the dashboard: typed queries that return plain structs, which
//! are shown as text or serialized as JSON.

pub(crate) mod instances;
pub(crate) mod messages;
pub(crate) mod queues;
