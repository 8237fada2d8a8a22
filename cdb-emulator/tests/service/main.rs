//! The emulator's promises, over raw HTTP.

mod account;
mod catalog;
mod documents;
mod faults;
mod queries;
