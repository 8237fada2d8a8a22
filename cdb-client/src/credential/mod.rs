//! Authorizes requests: the trait, and the credentials that come with the client.

mod authorization;
#[cfg(feature = "entra")]
mod entra;
mod master_key;
mod sign;

pub use authorization::{Authorization, Credential, SigningContext};
#[cfg(feature = "entra")]
pub use entra::EntraId;
pub use master_key::MasterKey;
