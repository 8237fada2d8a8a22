//! Who a request comes from and what it may do: signatures with the account key, and Entra ID tokens.

pub(crate) mod entra;
pub(crate) mod signature;
