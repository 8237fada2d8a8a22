//! The emulator's promises, over raw HTTP.

mod account;
mod documents;
mod faults;
mod queries;
