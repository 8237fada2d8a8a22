//! The command as its users see it: help, answers, exit codes, each as a snapshot, against emulators in this process.
//!
//! `UPDATE_EXPECT=1 cargo test -p cdb-cli` writes the snapshots anew.

mod connection;
mod documentation;
mod emulator;
mod harness;
mod help;
mod model;
mod policy;
mod shop;
