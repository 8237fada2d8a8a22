//! What this process knows of the work: instances, activities and intents, the local queues that
//! hand them out, the polls that fill these queues, and the locks that it holds.
//!
//! Only conditional writes decide the ownership of work. Everything here is a hint until one
//! succeeds.

pub(crate) mod activities;
mod behind;
pub(crate) mod hand_over;
pub(crate) mod instances;
pub(crate) mod intents;
pub(crate) mod ledger;
pub(crate) mod limits;
pub(crate) mod local_queue;
mod other_work;
mod overhead;
pub(crate) mod poll;
pub(crate) mod release;
mod services;
pub(crate) mod session;
mod telemetry;

pub(crate) use behind::{go_behind, is_yielding, note_begin};
pub(crate) use services::{CONCURRENCY, Services};
pub(crate) use telemetry::Telemetry;
