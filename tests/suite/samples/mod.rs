//! Orchestrations of every kind in duroxide's guide, end to end: a runtime, a provider, a store.

mod flow;
mod sub_orchestrations;
mod timers;

mod events;
mod sessions;
mod tags;

mod continue_as_new;
mod versioning;

mod cancellation;
mod errors;

mod state;
