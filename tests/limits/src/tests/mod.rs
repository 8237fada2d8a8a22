//! Tests of the model: properties of the pure machine, worlds for each promise, and today's algorithm, in which the
//! judge must find the known violations.

mod bench;
mod faults;
mod keys;
mod promises;
mod properties;
mod today;
