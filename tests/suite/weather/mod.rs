//! Sick physical partitions in many mixtures delay only their own work. Time is simulated.

mod cancelled;
mod copies;
mod elsewhere;
mod events;
mod network;
mod own;
mod plans;
mod site;
mod split;
