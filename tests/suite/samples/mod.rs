//! What orchestrations need of a provider, end to end: a runtime, a provider, a store. duroxide tests
//! what it does without its provider.

mod flow;
mod sub_orchestrations;
mod timers;

pub(crate) mod events;
mod sessions;
mod tags;

mod continue_as_new;
mod versioning;

mod cancellation;
mod errors;

mod state;
