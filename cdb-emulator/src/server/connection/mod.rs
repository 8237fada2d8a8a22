//! One connection: the limits that admit it, and its encryption.

pub(super) mod admission;
pub(super) mod tls;
