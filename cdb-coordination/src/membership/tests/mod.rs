//! Members of one group on an embedded emulator, each with its own client like a process. Time is
//! simulated.

mod cluster;
mod crash;
mod faults;
mod moves;
