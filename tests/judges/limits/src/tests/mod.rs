//! Tests of the model: properties of the pure machine and worlds for each promise.

mod bench;
mod faults;
mod keys;
mod promises;
mod properties;
