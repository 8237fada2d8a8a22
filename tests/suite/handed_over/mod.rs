//! Completions that a turn of the same process consumes before they are stored: nothing is answered before it
//! is durable, nothing waits long, nothing is lost or doubled.

mod any_order;
mod broken;
mod compared;
mod faults;
mod policy;
mod rule;
mod stage;
