//! The derives by behaviour: a file per attribute, and one shop that uses most of them together.

mod generic;
mod id;
mod index;
mod lease;
mod partition_key;
mod rename;
mod shop;
mod ttl;
mod write_times;
