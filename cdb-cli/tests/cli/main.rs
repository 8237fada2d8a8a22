//! Tests of the command's help, answers and exit codes, with snapshots, on emulators in this
//! process.
//!
//! `UPDATE_EXPECT=1 cargo test -p cdb-cli` updates the snapshots.

#[macro_use]
mod harness;

mod account;
mod connection;
mod containers;
mod copy;
#[cfg(feature = "dashboard")]
mod dashboard;
mod doctor;
mod documentation;
mod emulator;
mod export_parts;
mod fixture;
mod help;
mod instances;
mod json;
mod limits;
mod limits_messages;
#[cfg(feature = "mcp")]
mod mcp;
mod messages;
mod migrate;
mod model;
mod options;
mod orchestration;
mod policy;
mod queues;
mod replay;
mod retrying;
mod rewind;
mod round_trips;
mod schema;
mod selection;
mod several;
mod shop;
mod unbegun;
mod waiting_messages;
#[path = "../../../tests/suite/work_items.rs"]
#[expect(dead_code, reason = "these tests need a part of it")]
mod work_items;
