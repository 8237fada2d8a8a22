//! The regions of an account, and which of them gets a request.

mod account;
mod endpoints;

pub use account::{Account, Region};
pub(crate) use endpoints::Regions;
