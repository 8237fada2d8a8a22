//! A model of limits on concurrent activities and rates over many runtimes: the protocol as a pure machine, a
//! world in virtual time, today's algorithm, and a judge. No emulator, no network, no clock.
//!
//! `cargo run -p cdb-limits-model --release -- table` prints the figures.

mod cases;
mod judge;
mod machine;
mod protocol;
mod table;
mod today;
mod world;

#[cfg(test)]
mod tests;

pub use table::print_table;
