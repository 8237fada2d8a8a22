//! The suites, in one binary, because every binary is linked separately.

mod harness;

mod ambiguity;
mod bad_input;
mod book;
mod circles;
mod core_faults;
mod faults;
mod hostile;
mod lag;
mod large;
mod limits;
mod local_queue;
mod locks;
mod members;
mod model;
mod network;
mod outbox;
mod own_container;
mod partitions;
mod policy;
mod reconciler;
mod regions;
mod replay;
mod requests;
mod retention;
mod samples;
mod security;
mod several;
mod shutdown;
mod stress;
mod takeover;
mod telemetry;
mod tidy;
mod upgrade;
mod validation;
