//! Sick physical partitions in mixtures of faults delay only their own work. Time is simulated.

mod copies;
mod elsewhere;
mod network;
mod site;
mod slow;
