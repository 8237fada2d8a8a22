//! The credentials that come with the client.

#[cfg(feature = "entra")]
mod entra;
mod master_key;
mod sign;

#[cfg(feature = "entra")]
pub use entra::EntraId;
pub use master_key::MasterKey;
