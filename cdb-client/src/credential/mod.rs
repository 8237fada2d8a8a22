//! Who we are: what turns a request into its `Authorization` header.

mod credential_trait;
#[cfg(feature = "entra")]
mod entra;
mod master_key;
mod resource_token;

pub use credential_trait::{Authorization, Credential, SigningContext};
#[cfg(feature = "entra")]
pub use entra::EntraId;
pub use master_key::MasterKey;
pub use resource_token::ResourceTokens;
