//! Measures how figures change with size: waiting instances, runtimes, physical partitions,
//! histories, orchestrations in flight.

mod history;
mod memory;
mod partitions;
mod pickup;
mod runtimes;
mod seed;
mod throughput;
mod waiting;

pub use history::run as history;
pub use memory::run as memory;
pub use partitions::run as partitions;
pub use pickup::run as pickup;
pub use runtimes::run as runtimes;
pub use throughput::run as throughput;
pub use waiting::run as waiting;
