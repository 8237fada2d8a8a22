//! Who we are: what turns a request into its `Authorization` header.

mod credential_trait;
mod master_key;

pub use credential_trait::{Authorization, Credential, SigningContext};
pub use master_key::MasterKey;
