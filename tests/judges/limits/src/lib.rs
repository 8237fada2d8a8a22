//! A model of limits on concurrent activities and rates over many runtimes: the protocol of the provider, a world in
//! virtual time, and a judge. No emulator, no network, no clock.
//!
//! `cargo run -p cdb-limits-model --release -- table` prints the figures.

mod cases;
mod judge;
#[expect(
    dead_code,
    unused_imports,
    reason = "some parts are for the provider only"
)]
#[path = "../../../../provider/src/queue/limits/protocol/mod.rs"]
mod machine;
mod protocol;
mod service;
mod table;
mod world;

#[cfg(test)]
mod tests;

pub use table::print_table;
