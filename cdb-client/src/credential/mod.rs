//! Authorizes requests: the trait, and the credentials that come with the client.

mod authorization;
#[cfg(feature = "entra")]
mod entra;
pub(crate) mod master_key;
mod sign;

pub use authorization::{Authorization, Credential, SigningContext};
#[cfg(feature = "entra")]
pub use entra::EntraId;
pub(crate) use master_key::MasterKey;
