//! The intents that this process delivers, and the targets that do not answer.

mod backoff;
mod intent;
mod state;

pub(crate) use intent::Intent;
pub(crate) use state::Delivery;
