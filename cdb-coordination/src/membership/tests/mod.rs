//! Members of one group on an embedded emulator, each with a client of its own as if it were a process. Time is simulated.

mod crash;
mod crew;
mod moves;
mod trouble;
