//! Scripts: the JavaScript of stored procedures, triggers and user-defined functions.
//!
//! A script sees the server-side API of `server_side_api.js` and nothing else: no files, no sockets,
//! no modules. Its operations are queued, and the emulator executes them between its callbacks, as
//! on the service. Without the feature `scripts` this module has no engine.

#[cfg(not(feature = "scripts"))]
mod disabled;
#[cfg(feature = "scripts")]
mod engine;
#[cfg(feature = "scripts")]
mod exception;
mod feature;
mod host;

#[cfg(not(feature = "scripts"))]
pub(crate) use disabled::{Functions, run};
#[cfg(feature = "scripts")]
pub(crate) use engine::{Functions, run};
pub(crate) use feature::require;
pub(crate) use host::{Call, Ended, Host, Link, Messages, QueryCall, Reply, Setup, Source};
