//! Sick physical partitions in many mixtures delay only their own work. Time is simulated.

mod elsewhere;
mod network;
mod site;
