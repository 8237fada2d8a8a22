//! Tests of the emulator over raw HTTP.

#[macro_use]
mod account;
mod admin;
mod browser;
mod catalog;
mod client_requests;
#[cfg(feature = "bin")]
mod command;
mod container_features;
mod cost;
mod documents;
mod durability;
mod explorer;
mod faults;
mod garbage;
mod index_builds;
mod key_prefix;
mod key_version;
mod limits;
mod malformed;
#[cfg(all(feature = "bin", target_os = "linux"))]
mod many_partitions;
mod partition_faults;
mod plans;
mod queries;
mod ranges;
mod regions;
mod replicas;
mod search;
mod start;
mod throughput;
#[cfg(feature = "__tls")]
mod tls;
#[path = "../../examples/speed/wire.rs"]
mod wire;
mod writes;
