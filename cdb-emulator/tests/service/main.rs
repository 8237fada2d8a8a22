//! The emulator's promises, over raw HTTP.

mod account;
mod catalog;
mod documents;
mod faults;
mod queries;
mod start;
#[cfg(feature = "tls")]
mod tls;
