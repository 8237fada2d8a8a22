//! The sockets of an emulator, and the HTTP that they serve.

pub(super) mod http;
mod listen;
