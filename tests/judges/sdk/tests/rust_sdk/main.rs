//! The emulator's promises, kept to Microsoft's client for Rust (`azure_data_cosmos`).

mod account;
mod catalog;
mod feed;
mod items;
mod queries;
