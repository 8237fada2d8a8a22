//! What the runtime, clients, operators and tools call: one call per method.

mod effects;
mod limits;
mod management;
mod operators;
mod runtime;
mod tools;
