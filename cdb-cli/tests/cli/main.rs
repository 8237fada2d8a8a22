//! The command as its users see it: help, answers, exit codes, each as a snapshot, against emulators in this process.
//!
//! `UPDATE_EXPECT=1 cargo test -p cdb-cli` writes the snapshots anew.

mod connection;
#[cfg(feature = "dashboard")]
mod dashboard;
mod dead_letters;
mod doctor;
mod documentation;
mod emulator;
mod fixture;
mod harness;
mod help;
mod instances;
mod json;
mod model;
mod orchestration;
mod policy;
mod queues;
mod schema;
mod shop;
