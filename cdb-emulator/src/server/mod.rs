//! A running emulator: its start and its Rust API, its sockets, and the path of a request from them to
//! the operations.

mod admin;
#[cfg(feature = "bin")]
mod command;
mod connection;
mod emulator;
mod execute;
mod handle;
mod in_process;
mod local;
mod sockets;
mod start;
mod state;

#[cfg(feature = "bin")]
pub use command::EmulatorCommand;
pub use emulator::Emulator;
pub use in_process::ConnectionBroken;
