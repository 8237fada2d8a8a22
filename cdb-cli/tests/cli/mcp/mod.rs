//! `cdb mcp`: a client in this process speaks the protocol with the command in a child process.

mod client;
mod incidents;
mod tools;
