//! The subcommands about messages and changes that are not delivered or whose handlers fail.

pub(crate) mod changes;
pub(crate) mod deadletters;
pub(crate) mod inbox;
pub(crate) mod outbox;
mod redrive;
pub(crate) mod work;
