//! The sockets: listeners, the limits of their connections, HTTP and TLS.

pub(super) mod admission;
pub(super) mod http;
mod listen;
pub(super) mod tls;
