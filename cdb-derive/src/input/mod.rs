//! What the user has written: the settings of the derives, serde's attributes, and how mistakes are named.

pub(crate) mod diag;
pub(crate) mod rename;
pub(crate) mod serde_attr;
pub(crate) mod settings;
